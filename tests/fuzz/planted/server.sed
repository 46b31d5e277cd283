# FILE: client/op/poll.c
# A reply's operation is looked for wherever its number says.
s/ || reply->request_id % OPS_MAX >= e->depth) {/) {/
