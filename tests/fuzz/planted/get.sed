# FILE: client/get/verify.c
# An item's own lengths are believed.
s/ITEM_TORN || bytes > g->length)/ITEM_TORN)/
