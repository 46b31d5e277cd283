# server/store/change/change.c
# exclusion
# Seen: check: (.* under the lock|a value of two)
# Rule 6: a change needs no permission of the lock word.
s/if (stripe_word(w->store, stripe) == c->token)/if (stripe != ~0ull)/
