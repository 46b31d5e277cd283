# server/store/change/change.c
# exclusion passes
# Much can happen between a look at the lock word and what follows from it.
s|^#include <stdatomic.h>|#include <sched.h>\n&|
/^bool work_enter(/i\
static void take_time(void)\
{\
	for (int i = 0; i < 20; i++)\
		sched_yield();\
}\

/^bool work_enter(/,/^}/ {
	s|	k->stripe = .*|&\n	take_time();|
	s|	if (is_permitted(w, c))|	take_time();\n&|
	s|		return true;|	{\n			take_time();\n			return true;\n		}|
}
