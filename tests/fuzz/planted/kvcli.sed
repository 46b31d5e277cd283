# FILE: client/api/call.c
# A key of a page may be shorter than the prefix.
s/ || head->key_bytes < prefix_bytes ||/ ||/
s/if (prefix_bytes && memcmp/if (!prefix_bytes \&\& memcmp/
