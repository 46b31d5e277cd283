# server/store.c
# exclusion
# Rule 4: a change under way does not show in the item.
/^static bool enter(/,/^}/ s/k->old->state | LAYOUT_PENDING/k->old->state/
