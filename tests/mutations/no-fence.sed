# server/lock/word.c
# stopped
# Seen: .* of the fenced one|check: a fenced client
# Rule 7: a lock whose lease is over goes to the next one, but its holder stays.
/^static void fence(/,/^}/ s/l->config.hooks.fence(.*/lockword_hand_over(l, q, q->seen | LAYOUT_LOCK_WAIT);/
