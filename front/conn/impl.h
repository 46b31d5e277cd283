/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * impl.h -- what the files of this room share: a loop, its connections, their requests.
 *
 * All of it is of the loop's thread, but for what says otherwise.
 *
 * A line becomes one request, or one for each of its keys and one for its end.  Requests
 * stand in the connection's queue in the order in which they came, and their answers go out
 * in that order.  They are executed together, but for those of the same key of which one is
 * a change, and for what is behind a barrier: these wait for the earlier ones.
 */
#ifndef FRONT_CONN_IMPL_H
#define FRONT_CONN_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "front/protocol/command.h"
#include "front/store/clerk.h"
#include "front/store/link.h"
#include "front/store/mailbox.h"
#include "front/store/memory.h"

#define IN_BYTES 16384u       /* of a connection's input that is not executed yet */
#define LINE_BYTES_MAX 2048u  /* a line that has no end within that ends the connection */
#define REQUESTS_MAX 128u     /* of a connection, unanswered: a session takes as many */
#define HELD_BYTES_MAX (1u << 20) /* long values of a connection, before it waits */
#define OUT_TEXT_BYTES 16384u
#define OUT_SEGMENTS 64u
#define OUT_COPY_BYTES 2048u  /* shorter values are copied among the answers */

struct conn;
struct event;
struct event_base;

/* --------------------------------------------------------------- counters */

#define COUNTERS(X)                                                                            \
	X(cmd_get) X(cmd_set) X(cmd_flush) X(cmd_touch) X(cmd_meta)                            \
	X(get_hits) X(get_misses) X(delete_misses) X(delete_hits)                              \
	X(incr_misses) X(incr_hits) X(decr_misses) X(decr_hits)                                \
	X(cas_misses) X(cas_hits) X(cas_badval) X(touch_hits) X(touch_misses)                  \
	X(store_too_large) X(store_no_memory) X(auth_cmds) X(auth_errors) X(idle_kicks)        \
	X(stalled_kicks) X(bytes_read) X(bytes_written) X(kvd_errors) X(kvd_losses)            \
	X(kvd_reads) X(kvd_doorbells)                                                          \
	X(curr_connections) X(total_connections) X(conn_yields)

enum counter {
#define X(name) COUNTER_##name,
	COUNTERS(X)
#undef X
	COUNTERS_ALL
};

/* Written by the loop, read by any thread; no order with anything else. */
struct counters {
	_Atomic uint64_t value[COUNTERS_ALL];
};

/* ------------------------------------------------------------------- loop */

/* What all loops share; set before they start. */
struct front {
	struct command_rules rules;
	uint64_t item_bytes_max;
	uint64_t timeout_ns; /* of a request */
	uint64_t idle_ns;    /* 0: connections may be idle for ever */
	uint64_t stall_ns;   /* who does not take its answers for so long is closed */
	struct clerk *clerk;
	struct loop **loops;
	unsigned loop_count;
	struct auth *auth; /* NULL: nobody has to say who they are */
	void (*on_shutdown)(void);
	/* Statistics of the general kind: a text of STAT lines, allocated; any thread. */
	char *(*stats)(const struct front *front, const char *words, size_t bytes,
		       const char *kvd_json);
	struct memory_budget budget;
	_Atomic unsigned connections;
	_Atomic int verbosity;
};

struct loop {
	struct front *front;
	struct event_base *base;
	struct link *gets, *changes; /* so that a change that kvd does not answer stops no GET */
	struct memory memory;
	struct mailbox box;
	struct counters counters;
	uint64_t now_ns; /* of this round */
	struct conn *conns;
	struct conn *dirty; /* have something to do before the loop sleeps */
	struct request *live, *free_requests;
	unsigned free_count;
	char scratch[IN_BYTES];
};

/* --------------------------------------------------------------- requests */

enum request_state { REQUEST_WAITS, REQUEST_RUNS, REQUEST_DONE };

/* What a request does at kvd now. */
enum step {
	STEP_GET,    /* the value, if it fits a small block; or the length and the rest */
	STEP_LONG,   /* the value, into a block of its length */
	STEP_LOOK,   /* all but the value */
	STEP_TOUCH,
	STEP_CLAIM,  /* the right to renew */
	STEP_VIVIFY, /* an empty value, for who shall make it */
	STEP_PUT,
	STEP_ADD_TO, /* append and prepend */
	STEP_COUNT,  /* incr and decr */
	STEP_DELETE,
};

enum outcome {
	OUTCOME_TEXT, /* `text` is the answer; NULL: none */
	OUTCOME_ERROR, /* `error` is, and `text` behind it */
	OUTCOME_OK,
	OUTCOME_NOT_STORED,
	OUTCOME_EXISTS,
	OUTCOME_NOT_FOUND,
};

struct request {
	struct ticket ticket; /* first */
	struct request *next; /* in the connection's queue, or free */
	struct request *next_live, **prev_live;
	struct conn *conn;    /* NULL: it is gone, and nobody wants the answer */
	struct loop *loop;
	enum request_state state;
	enum step step;
	enum outcome outcome;
	bool is_change;
	bool is_barrier;
	bool is_long;     /* its value takes more than a small block */
	bool ends_keys;   /* the end of a line of keys */
	bool has_won;     /* the right to renew */
	uint8_t rounds;   /* of lookups that others' changes overtook */
	uint8_t key_bytes;
	uint8_t key[COMMAND_KEY_BYTES_MAX];
	uint64_t key_hash;
	struct command command; /* its words point nowhere any more */
	struct block value;
	uint64_t value_bytes;
	const char *text;
	char *error; /* allocated */
	/* What is known of the item. */
	uint64_t version, ttl_ms, number;
	uint32_t flags;
	int signs;
};

/* ------------------------------------------------------------- connections */

/* What the next bytes of the input are. */
enum input_state {
	INPUT_LINE,
	INPUT_KEYS,    /* more of a line's keys */
	INPUT_VALUE,
	INPUT_SWALLOW, /* a value that is not wanted */
	INPUT_SKIP,    /* the rest of a line that is not wanted */
};

struct segment {
	const uint8_t *at;
	size_t bytes;
	struct block block; /* what it is of, to be given back; or none */
};

struct output {
	char *text; /* NULL while there is nothing to be sent */
	size_t text_bytes;
	struct segment segment[OUT_SEGMENTS];
	unsigned first, count;
};

struct conn {
	struct loop *loop;
	struct conn *next, **prev;
	struct conn *next_dirty;
	struct event *readable, *writable;
	int fd;
	bool is_dirty;
	bool runs; /* what makes it dirty is seen anyway */
	bool reads;      /* `readable` is added */
	bool writes;     /* `writable` is added */
	bool ended;      /* nothing more will be read */
	bool mute;       /* nobody takes answers any more */
	bool closing;    /* no further line: close when all is answered */
	bool authorised;
	bool skips;      /* up to the end of a line of keys, of which one has failed */

	enum input_state input;
	char *in; /* in loop->scratch, or in `kept` */
	size_t in_bytes;
	char *kept; /* NULL, or IN_BYTES */
	struct command command; /* that INPUT_KEYS and INPUT_VALUE are of */
	char key[COMMAND_KEY_BYTES_MAX]; /* its key: command.key */
	struct block value;
	uint64_t got_bytes;  /* of the value and its line's end */
	uint64_t want_bytes; /* of them, or to be swallowed */

	struct request *first, **last;
	unsigned request_count, wait_count;
	struct output out;

	uint64_t heard_ns;  /* when something came, the last time */
	uint64_t moved_ns;  /* when output went, the last time, or began to wait */
};

static inline void count_add(struct loop *loop, enum counter counter, uint64_t n)
{
	_Atomic uint64_t *value = &loop->counters.value[counter];

	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline void count(struct loop *loop, enum counter counter)
{
	count_add(loop, counter, 1);
}

#endif
