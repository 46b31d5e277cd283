# FILE: server/access/gate.c
# A name as long as the peer likes.
s/ || hello->key_bytes > WIRE_NAME_BYTES_MAX//
