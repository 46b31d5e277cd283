# server/store/change/change.c
# exclusion
# Seen: check: (.* under the lock|a value of two)
# Rule 3: the lock word is looked at before the mark, but not after it.
/^bool work_enter(/,/^}/ s/if (is_permitted(w, c))/if (w)/
