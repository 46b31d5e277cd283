# FILE: bench/workload/property.c
# No room for the zero byte.
s/r->logical_bytes + bytes + 1)/r->logical_bytes + bytes)/
