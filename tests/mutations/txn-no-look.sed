# server/store/txn.c
# exclusion
# Seen: check: (.* under the lock|a value of two)
# Rules 6 and 16: a transaction does not look at the lock words.
/^static bool are_permitted(/,/^}/ s/if (word != 0 && word != t->token)/if (word == ~0ull)/
