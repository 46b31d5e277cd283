# server/store/change/change.c
# exclusion
# Seen: check: (.* under the lock|a value of two)
# Rule 6: a change needs no permission of the lock word.
s/stripe_word(w->store, stripe) == c->token/stripe != ~0ull/
