# FILE: common/auth/auth.c
# A name as long as the file has it.
s/bytes == 0 || bytes > AUTH_NAME_BYTES_MAX/bytes == 0/
