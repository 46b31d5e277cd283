# server/store/change/change.c
# exclusion
# Seen: check: (.* under the lock|a value of two)
# Rule 4: a change under way does not show in the item.
/^bool work_enter(/,/^}/ s/k->old->state | LAYOUT_PENDING/k->old->state/
