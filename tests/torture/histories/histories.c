/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * histories ADDR CLIENTS SECONDS KILLS [SEED [UNTIL]]
 *
 * In short episodes client processes do operations of all kinds on a few keys that nobody used
 * before, if no other run had that SEED on this kvd: GET, PUT, DEL, counters, append and
 * prepend, touch, with conditions and times to live, alone and several in flight, transactions,
 * changes under locks.  Of each episode tests/lib/order.h says whether its answers can be
 * explained.  KILLS times a client is killed in the middle of one, and another takes its place.
 * With UNTIL, the name of a file that ends it before SECONDS are over, connections may break
 * and kvd may be killed and started again meanwhile: calls fail then, and locks are lost.  How many
 * operations there were it says each second.
 *
 * It takes longer than SECONDS, by a minute at most, until each kind of operation was seen
 * to succeed and to fail often enough to prove anything; without that it fails.
 */
#include "tests/torture/histories/histories.h"

#define MOMENT_US 100
#define MOMENTS_MAX 1200000u /* of an episode: not of a clock, which goes on while all are stopped */
#define EPISODES_MIN 50u
#define SEEN_MIN 5u

const char *server;

struct crew {
	struct board *board;
	unsigned clients, killed;
	uint32_t numbers; /* given so far */
	pid_t pid[CLIENTS_MAX];
	uint64_t random;
};

static uint64_t roll(struct crew *crew, uint64_t n)
{
	crew->random = crew->random * 6364136223846793005ull + 1442695040888963407ull;
	return (crew->random >> 33) % n;
}

static void start_client(struct crew *crew, unsigned desk)
{
	uint32_t number = ++crew->numbers;
	pid_t pid = fork();

	if (pid < 0)
		die("fork", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		client_main(crew->board, desk, number);
	}
	crew->pid[desk] = pid;
}

/* Waits a moment; ends the test after too many, or where a client ended. */
static void rest_a_moment(unsigned *moments, const char *what)
{
	nanosleep(&(struct timespec){ .tv_nsec = MOMENT_US * 1000 }, NULL);
	if (one_ended())
		die(what, "a client has failed");
	if (++*moments == MOMENTS_MAX)
		die(what, "the clients never came to its end");
}

/* Kills a client when it has begun some operations. */
static void kill_one(struct crew *crew, unsigned desk)
{
	const struct desk *d = &crew->board->desks[desk];
	unsigned begun = 1 + (unsigned)roll(crew, crew->board->ops), moments = 0;

	while (d->count < begun && d->done != crew->board->episode)
		rest_a_moment(&moments, "a kill");
	kill_process(crew->pid[desk]);
	crew->killed++;
}

static void begin_episode(struct crew *crew)
{
	struct board *board = crew->board;

	board->keys = 2 + (unsigned)roll(crew, KEYS_MAX - 1);
	board->ops = 4 + (unsigned)roll(crew, 9);
	for (unsigned c = 0; c < crew->clients; c++)
		board->desks[c].count = board->desks[c].used = 0;
	__atomic_store_n(&board->episode, board->episode + 1, __ATOMIC_RELEASE);
}

/* False: it can't be explained. */
static bool play_episode(struct crew *crew, struct order *order, struct totals *totals, bool kills)
{
	struct board *board = crew->board;
	unsigned victim = kills ? (unsigned)roll(crew, crew->clients) : CLIENTS_MAX, moments = 0;

	begin_episode(crew);
	if (kills)
		kill_one(crew, victim);
	for (unsigned c = 0; c < crew->clients; c++)
		while (c != victim && board->desks[c].done != board->episode)
			rest_a_moment(&moments, "an episode");
	bool is_explained = judge(order, board, crew->clients, totals);
	if (kills) {
		board->desks[victim].done = board->episode;
		start_client(crew, victim);
	}
	return is_explained;
}

/* --------------------------------------------------------------- what was seen */

struct floor {
	const char *what;
	uint64_t n, least;
};

/* The first that there was not enough of, or NULL. */
static const struct floor *first_below(const struct floor *floors, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (floors[i].n < floors[i].least)
			return &floors[i];
	return NULL;
}

static struct floor missing(const struct totals *t)
{
	const uint64_t(*r)[ORDER_ANY] = t->results;
	const struct floor floors[] = {
		{ "episodes", t->episodes, EPISODES_MIN },
		{ "operations beside others at a key, of four", 4 * t->overlaps, t->ops },
		{ "operations in flight with others of a client", t->submitted, SEEN_MIN },
		{ "keys that expired", t->expired, SEEN_MIN },
		{ "GETs", r[ORDER_GET][ORDER_OK], SEEN_MIN },
		{ "GETs of absent keys", r[ORDER_GET][ORDER_NOT_FOUND], SEEN_MIN },
		{ "PUTs", r[ORDER_PUT][ORDER_OK], SEEN_MIN },
		{ "PUTs refused", r[ORDER_PUT][ORDER_CONDITION], SEEN_MIN },
		{ "DELs", r[ORDER_DEL][ORDER_OK], SEEN_MIN },
		{ "DELs of absent keys", r[ORDER_DEL][ORDER_NOT_FOUND], SEEN_MIN },
		{ "DELs refused", r[ORDER_DEL][ORDER_CONDITION], SEEN_MIN },
		{ "counts", r[ORDER_INCR][ORDER_OK], SEEN_MIN },
		{ "counts of absent keys", r[ORDER_INCR][ORDER_NOT_FOUND], SEEN_MIN },
		{ "counts of what is no number", r[ORDER_INCR][ORDER_ENUMBER], SEEN_MIN },
		{ "appends", r[ORDER_APPEND][ORDER_OK], SEEN_MIN },
		{ "prepends", r[ORDER_PREPEND][ORDER_OK], SEEN_MIN },
		{ "touches", r[ORDER_TOUCH][ORDER_OK], SEEN_MIN },
		{ "touches of absent keys", r[ORDER_TOUCH][ORDER_NOT_FOUND], SEEN_MIN },
		{ "touches refused", r[ORDER_TOUCH][ORDER_CONDITION], SEEN_MIN },
		{ "locks", r[ORDER_LOCK][ORDER_OK], SEEN_MIN },
		{ "changes under locks", t->counts[COUNT_LOCKED], SEEN_MIN },
		{ "transactions", t->counts[COUNT_TXN], SEEN_MIN },
		{ "transactions that read", t->counts[COUNT_TXN_READS], SEEN_MIN },
		{ "transactions that came too late", t->counts[COUNT_TXN_LATE], SEEN_MIN },
	};
	const struct floor *f = first_below(floors, sizeof floors / sizeof *floors);

	return f ? *f : (struct floor){ NULL, 0, 0 };
}

static void add_counts(struct totals *totals, const struct crew *crew)
{
	memset(totals->counts, 0, sizeof totals->counts);
	for (unsigned c = 0; c < crew->clients; c++)
		for (unsigned i = 0; i < COUNTS; i++)
			totals->counts[i] += crew->board->desks[c].counts[i];
}

static void print_totals(const struct totals *t, const struct crew *crew)
{
	static const char *const kinds[ORDER_KINDS] = { "GET", "PUT", "DEL", "INCR", "APPEND",
							"PREPEND", "TOUCH", "LOCK", "UNLOCK" };

	for (unsigned k = 0; k < ORDER_UNLOCK; k++)
		printf("histories: %-7s %llu OK, %llu not found, %llu refused, %llu no number\n",
		       kinds[k], (unsigned long long)t->results[k][ORDER_OK],
		       (unsigned long long)t->results[k][ORDER_NOT_FOUND],
		       (unsigned long long)t->results[k][ORDER_CONDITION],
		       (unsigned long long)t->results[k][ORDER_ENUMBER]);
	printf("histories: %llu transactions, %llu that read, %llu too late; %llu keys expired\n",
	       (unsigned long long)t->counts[COUNT_TXN], (unsigned long long)t->counts[COUNT_TXN_READS],
	       (unsigned long long)t->counts[COUNT_TXN_LATE], (unsigned long long)t->expired);
	printf("histories: %llu episodes of %llu operations, %llu beside others, %llu of unknown "
	       "outcome; %u kills, %llu errors; at most %llu states; %llu not decided\n",
	       (unsigned long long)t->episodes, (unsigned long long)t->ops,
	       (unsigned long long)t->overlaps, (unsigned long long)t->unknown, crew->killed,
	       (unsigned long long)t->counts[COUNT_ERRORS], (unsigned long long)t->states_most,
	       (unsigned long long)t->undecided);
}

/* ------------------------------------------------------------------------ main */

struct plan {
	uint64_t ns;
	unsigned kills;
	const char *until;
};

/* The kills evenly over the time. */
static bool is_time_to_kill(const struct plan *plan, const struct crew *crew, uint64_t since_ns)
{
	return crew->killed < plan->kills &&
	       since_ns >= plan->ns / (plan->kills + 1) * (crew->killed + 1);
}

/* Not before the time is over, and there was of everything; but a minute later. */
static bool is_through(struct plan *plan, const struct crew *crew, const struct totals *totals,
		       uint64_t since_ns)
{
	if (plan->until && since_ns < plan->ns && !access(plan->until, F_OK))
		plan->ns = since_ns;
	if (since_ns < plan->ns || crew->killed < plan->kills)
		return false;
	return !missing(totals).what || since_ns >= plan->ns + PATIENCE_NS;
}

/* Once a second, for who ends it. */
static void tell_progress(const struct plan *plan, const struct totals *totals, uint64_t since_ns)
{
	static uint64_t told_s;

	if (!plan->until || since_ns / 1000000000 == told_s)
		return;
	told_s = since_ns / 1000000000;
	printf("histories: %llu operations so far\n", (unsigned long long)totals->ops);
	fflush(stdout);
}

/* False: an episode can't be explained. */
static bool play(struct crew *crew, struct plan *plan, struct totals *totals)
{
	uint64_t begin_ns = now_ns(), since_ns = 0;
	struct order *order = order_new();
	bool is_explained = true;

	while (is_explained && !is_through(plan, crew, totals, since_ns)) {
		is_explained = play_episode(crew, order, totals,
					    is_time_to_kill(plan, crew, since_ns));
		add_counts(totals, crew);
		since_ns = now_ns() - begin_ns;
		tell_progress(plan, totals, since_ns);
	}
	order_delete(&order);
	return is_explained;
}

static void parse(struct crew *crew, struct plan *plan, int argc, char **argv)
{
	uint64_t seed = argc > 5 ? strtoull(argv[5], NULL, 10) : 1;

	server = argv[1];
	*plan = (struct plan){ strtoull(argv[3], NULL, 10) * 1000000000ull,
			       (unsigned)atoi(argv[4]), argc > 6 ? argv[6] : NULL };
	*crew = (struct crew){ .board = shared_new(sizeof *crew->board),
			       .clients = (unsigned)atoi(argv[2]), .random = seed };
	crew->board->seed = seed;
	crew->board->restarts = plan->until;
	if (crew->clients < 2 || crew->clients > CLIENTS_MAX)
		die("arguments", "out of range");
}

int main(int argc, char **argv)
{
	struct totals totals = { 0 };
	struct crew crew;
	struct plan plan;
	bool failed = false;

	if (argc < 5 || argc > 7) {
		fprintf(stderr, "usage: histories ADDR CLIENTS SECONDS KILLS [SEED [UNTIL]]\n");
		return 2;
	}
	parse(&crew, &plan, argc, argv);
	for (unsigned c = 0; c < crew.clients; c++)
		start_client(&crew, c);
	bool is_explained = play(&crew, &plan, &totals);
	crew.board->is_over = true;
	for (unsigned c = 0; c < crew.clients; c++)
		failed |= !ended_well(crew.pid[c]);
	print_totals(&totals, &crew);
	if (failed || !is_explained)
		return 1;
	struct floor floor = missing(&totals);
	reached(floor.what ? floor.what : "kinds of operations", floor.n, floor.least);
	reached("kills", crew.killed, plan.kills);
	/* What is not decided is no pass. */
	reached("episodes decided, of a hundred", 100 * (totals.episodes - totals.undecided),
		99 * totals.episodes);
	return 0;
}
