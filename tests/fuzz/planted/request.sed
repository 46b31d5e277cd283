# FILE: server/worker/request/request.c
# The lengths of a transaction's keys are not compared with the message's.
s/(size_t)(end - at) < (size_t)w.key_bytes + w.value_bytes)/false)/
