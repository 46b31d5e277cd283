/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session.h -- inside libkvd: a client, its sessions, their operations.
 *
 * An operation (struct op) is a small state machine: a phase, the READs or the
 * message that it waits for, and a function that goes on when they are complete.
 * Many are in flight on one queue pair; the synchronous calls run one.
 */
#ifndef CLIENT_OP_SESSION_H
#define CLIENT_OP_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client/cache/table.h"
#include "client/op/hints.h"
#include "client/kvd.h"
#include "client/cache/iov.h"
#include "client/op/memory.h"
#include "common/addr.h"
#include "common/auth/file.h"
#include "common/clock.h"
#include "common/rdma/device.h"
#include "common/hash.h"
#include "common/rdma/hwcount.h"
#include "common/rdma/link.h"
#include "common/spin.h"
#include "common/wire.h"

#define DEPTH_DEFAULT 32
#define DEPTH_MAX 128
#define OPS_MAX 256u /* a power of two; an operation's place in its request ids */
#define TIMEOUT_MS_DEFAULT 5000
#define MIRROR_BYTES_DEFAULT (64ull << 20)
#define SGE_MAX 16u /* of a work request */

#define CLIENT_ADDRS_MAX 8u

/* An odd number of cache lines from one to the next: at multiples of 8 KiB all messages
 * would share a few sets of the cache. */
#define RX_STRIDE_BYTES (WIRE_MESSAGE_BYTES_MAX + 5 * 64)

struct kvd_client {
	struct kvd_options options;
	struct addr addr; /* its text with the namespace; settled by the first session */
	/* What else the server's name stands for, until that: session_connect(). */
	struct addr others[CLIENT_ADDRS_MAX - 1];
	unsigned other_count;
	pthread_mutex_t settling; /* of addr and others; taken before `lock` */
	uint64_t space;   /* space_number() of that */
	struct device device;
	const struct verbs *verbs;
	struct credentials credentials;
	bool has_credentials;
	pthread_mutex_t lock; /* of what follows, and err */
	struct err err;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	unsigned pd_users; /* sessions */
	bool device_lost;  /* the last of them lets go of it */
	struct link_limits limits;
	struct directory *directory; /* of the kvd that was met last; NULL before */
	uint64_t clock_tick_ns; /* of the coarse clock */

	struct buffers *buffers;
	struct mirror *mirror;
	_Atomic uint64_t buckets;     /* the highest number that any session learnt */
};

/*
 * What an operation does when something of it is complete: set by who starts it.
 * It goes on with it, or ends it by op_done().
 */
struct op_class {
	void (*advance)(struct op *op); /* what it waits for has become one less: op->reads */
	void (*reply)(struct op *op, const uint8_t *payload); /* op->reply is set */
	bool detached; /* nobody waits for it: its end frees it */
	bool changes;  /* if its connection is lost, nobody knows whether it happened */
};

enum phase {
	PHASE_IDLE,
	PHASE_READS, /* READs are out, or an atomic */
	PHASE_REPLY, /* a message is out */
};

struct op {
	struct kvd_session *session;
	uint32_t index;
	const struct op_class *class;
	enum phase phase;
	bool ended; /* answered, but its SEND is not complete */
	bool done;
	void *tag;
	struct op *next; /* of the list of free or completed ones */
	struct op_memory *memory;
	uint64_t begun_ns;
	uint64_t deadline_ns;
	uint32_t request_id;

	uint8_t key[KVD_KEY_BYTES_MAX];
	uint32_t key_bytes;
	struct hash hash;

	struct pieces value; /* the caller's memory */
	bool allocate;       /* GET: `allocated` is to be it */
	uint8_t *allocated;

	void *own;       /* what its class keeps of it */
	uint32_t reads;  /* completions that it waits for */

	/* Locks */
	uint64_t stripe;
	uint64_t token;
	struct kvd_receipt sent;          /* of a change */

	/* The result. */
	int result;
	size_t result_bytes;
	uint64_t result_version;
	uint64_t result_ttl_ms;
	int64_t result_number;
	struct wire_reply reply;
	uint64_t sent_ns;
	uint32_t payload_bytes; /* of the reply: copied to memory->message */
};

struct kvd_session {
	struct kvd_client *client;
	const struct verbs *verbs;
	struct registrar registrar;
	struct err err;
	bool connected;
	bool broken; /* tear down and connect again before the next use */
	struct err lost; /* how the last connection ended; "": there is one, or never was */
	int broken_code;
	int attempt_ms;   /* what an attempt to connect may take */
	uint64_t call_begun_ns, call_end_ns; /* of a call that waits; 0: none is under way */
	bool uses_pd;     /* of the client */
	bool device_lost; /* it was taken away: nothing of it may be kept */
	int notice;       /* enum wire_notice: the last that kvd gave, or 0 */
	uint64_t notice_ns;

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	unsigned events;
	struct ibv_qp *qp;
	uint32_t inline_bytes;
	struct wire_connect connect; /* what this connection began with */
	struct wire_accept accept;
	uint32_t server_qpn;
	struct remote_table table;

	uint8_t *memory; /* op_memory[depth], then receive buffers */
	size_t memory_bytes;
	struct ibv_mr *memory_mr;
	uint32_t depth; /* operations: one more than may be submitted, for an unlock */
	uint32_t rx_count;
	uint8_t *rx; /* RX_STRIDE_BYTES each */

	/* Work requests to be posted with the next doorbell. */
	struct ibv_send_wr *wr;
	struct ibv_sge *sge; /* sge_max each */
	uint32_t sge_max; /* at most SGE_MAX */
	uint32_t wr_count;
	uint32_t sq_depth;
	uint64_t sq_posted; /* put into wr[], ever */
	uint64_t sq_done;
	uint32_t unsignaled;

	struct op *ops;
	struct get *gets; /* one each */
	struct op *free_ops;
	struct op *done, **done_end;
	uint32_t in_flight;
	uint32_t next_request;
	uint64_t secret; /* for WIRE_FATE */
	struct kvd_receipt *receipt; /* the caller's, or NULL */
	int event_fd; /* of kvd_fd(), or -1 */
	uint64_t last_cm_look_ns;

	/* Tokens that this session holds or tries to get: kvd READs them. */
	struct layout_held *held;
	struct ibv_mr *held_mr;
	uint64_t lock_counter;
	uint64_t lock_stripes[LAYOUT_HELD_MAX];
	unsigned lock_count;
	struct hints *hints; /* NULL: kvd wants none */
	struct spin spin;
	struct kvd_counters counters;
	uint8_t port;           /* of the device */
	struct hwcount counted; /* by it, until the session connected */
};

/* At most clock_tick_ns behind, at a third of the price.  What was over by this clock is
 * over, and a deadline needs no more. */
static inline uint64_t clock_coarse_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

/* When the call that is under way, or that begins now, has to end. */
uint64_t session_deadline_ns(const struct kvd_session *s);

/* call.c: a call that waits begins; false: it is a part of one.  To its end with that. */
bool session_call_begin(struct kvd_session *s);
void session_call_end(struct kvd_session *s, bool outermost);
/* For calls that wait: the key is good, the session connected, and nothing
 * else in flight. */
int session_begin(struct kvd_session *s, const void *key, size_t key_bytes);
/* client/api/async.c: likewise, and sets *op.  KVD_EBUSY: poll first. */
int session_submit(struct kvd_session *s, const struct op_class *class, const void *key, size_t key_bytes,
		   void *tag, struct op **op);
/* Takes an operation's value; KVD_E* with the session's err. */
int session_set_value(struct kvd_session *s, struct pieces *value, const struct iovec *iov,
		      int count);

/* client/session/connect.c: the connection.  0 or KVD_E*, with the session's err set. */
int session_connect(struct kvd_session *s);
void session_disconnect(struct kvd_session *s);
/* Under the client's lock, or as its last: a client's protection domain, if there is one. */
void session_free_pd(struct kvd_client *client);
/* Gives back what is registered with the device. */
void session_leave_device(struct kvd_session *s);
/* Connects again if it is broken, trying for as long as a call may take. */
int session_ready(struct kvd_session *s);
/* failure.c */
/* kvd told something that nobody asked for: for the sentence of a later failure. */
void session_noticed(struct kvd_session *s, unsigned notice);
/* KVD_EDENIED, with a sentence: the user's role is too small for this. */
int session_denied(struct kvd_session *session);
/* Marks it broken; every operation ends with an error at the next session_poll(). */
int session_fail(struct kvd_session *s, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds to the sentence what is known of the reason. */
void session_explain(struct kvd_session *s);
/* And how the connection ended that can't be made anew. */
void session_recall(struct kvd_session *s);

/* hello.c: says it, and learns the table.  0 or KVD_E*, with the session's err set. */
int hello_say(struct kvd_session *s);

/* flight.c: work requests and completions */
struct op *op_new(struct kvd_session *s, const struct op_class *class, const void *key,
		  size_t key_bytes);
void op_free(struct op *op);
/* Ends an operation: it goes to the list of completed ones, or is freed if it is detached;
 * when what is posted of it is complete, unless its session is broken. */
void op_done(struct op *op, int result);
/* Into op->memory; `last` of a phase's READs. */
void op_read(struct op *op, uint64_t remote, uint32_t rkey, void *to, uint32_t bytes, bool last);
/*
 * From the byte `from` on of an item whose first head_bytes go to op->memory->item
 * and the rest to op->value, which is registered; `bytes` in all, or less if that
 * takes too many gather elements: how many.
 */
uint32_t op_read_item(struct op *op, uint64_t remote, uint32_t rkey, uint64_t from,
		      uint32_t head_bytes, uint32_t bytes);
/* Of a work request that is put into the send queue now; `awaited`: its completion is
 * what the operation waits for. */
static inline uint64_t flight_wr_id(struct kvd_session *s, const struct op *op, bool awaited)
{
	return op->index | (uint64_t)awaited << 16 | ++s->sq_posted << 17;
}
/* What stands in op->memory->message; `gather`: and op->value, which is registered, behind it. */
void op_send(struct op *op, uint32_t bytes, bool gather);
/* The old value goes to memory->small[0].  Not fenced: locks are taken and released
 * only while no READ or change under them is outstanding, and of an unlock and a
 * lock behind it either may come first. */
void op_cas(struct op *op, uint64_t remote, uint32_t rkey, uint64_t expected, uint64_t desired);
uint32_t flight_room(const struct kvd_session *s);
/* What the completion queue had: every one of a session's completions goes there. */
void flight_completed(struct kvd_session *s, const struct ibv_wc *wc, int n);
/* Posts what was collected. */
int flight_flush(struct kvd_session *s);
/* Takes what is complete; how much that was, or KVD_E*. */
int flight_take(struct kvd_session *s);
/* Makes what progress there is without waiting, whatever is completed.  0 or KVD_E*. */
int flight_look(struct kvd_session *s);
/* Makes progress; waits up to `until_ns` while nothing is completed.  0 or KVD_E*. */
int flight_poll(struct kvd_session *s, uint64_t until_ns);
/* The same for so long; 0: a look, which does not wait. */
int flight_poll_for(struct kvd_session *s, uint64_t wait_ns);
/* How many in flight are detached. */
uint32_t flight_detached(const struct kvd_session *s);
/* Asks for an event on the next completion, having taken all that came before. */
void flight_arm(struct kvd_session *s);
/* Ends every operation of a broken session, after its queue pair is gone. */
void flight_abort(struct kvd_session *s);

/* client/session/teardown.c */
/* Ends the connection, then all operations that are in flight. */
void session_down(struct kvd_session *s);

/* client/session/device.c */
int session_share_pd(struct kvd_session *s);

/* client/session/wait.c: as those of flight.c, and a broken connection is torn down. */
int session_poll(struct kvd_session *s, uint64_t until_ns);
int session_poll_for(struct kvd_session *s, uint64_t wait_ns);
void session_arm(struct kvd_session *s);
/* Runs one operation to its end and frees it; its result. */
int session_run(struct op *op);
/* Runs two to their ends; the caller frees them. */
void session_wait(struct kvd_session *s, struct op *first, struct op *second);
/*
 * Takes what detached operations left.  How many others are in flight; if
 * none is, two operations are free when it returns.
 */
uint32_t session_settle(struct kvd_session *s);

/* client/session/prefill.c: READs all of the index into the mirror.  0 or KVD_E*. */
int ahead_read(struct kvd_session *s);

/* client/session/event.c: one descriptor for all that a session waits for */
/* The descriptor, made when it is first asked for; or KVD_E* with the session's err. */
int event_fd_of(struct kvd_session *s);
int event_attach(struct kvd_session *s); /* to a new connection's descriptors */
void event_delete(struct kvd_session *s);

/* client/get/fast.c */
struct got { /* of a GET that waits; `allocated` is the caller's */
	void *allocated;
	size_t bytes;
	uint64_t version;
};
enum quick {
	QUICK_NOT,   /* the ordinary way from its beginning */
	QUICK_BEGUN, /* *op is on it */
	QUICK_DONE,  /* *result; *got, if that is KVD_OK or KVD_ESPACE */
};
enum quick quick_get(struct kvd_session *s, const void *key, size_t key_bytes,
		     const struct iovec *to, struct got *got, struct op **op, int *result);
/* Of a GET behind the compare-and-swap of its key's lock. */
struct quick_lock {
	bool won;
	bool has_value; /* then `result`, and `got` as above; false: to be READ once more */
	int result;
	struct got got;
	struct op *cas, *read; /* QUICK_BEGUN */
};
enum quick quick_lock_get(struct kvd_session *s, const void *key, size_t key_bytes,
			  uint64_t stripe, uint64_t token, const struct iovec *to,
			  struct quick_lock *q);

/* lockword.c */
/* The operation of one that has been posted for it, and perhaps is complete. */
struct op *stripe_resume(struct kvd_session *s, uint64_t stripe, uint64_t token, bool complete);

/* request.c */
extern const struct op_class call_class;     /* its reply's payload goes to memory->message */
extern const struct op_class change_class;
extern const struct op_class detached_class; /* a message whose reply says nothing */
/*
 * Sends a request with the `value_bytes` of op->value behind it, or without one: 0.  `ask` has what is not
 * the operation's: op, flags, token, ttl_ms, version and so on.  On an error nothing
 * was sent and the caller frees the operation.
 */
int request_send(struct op *op, const struct wire_request *ask, size_t value_bytes);
/* The result that a reply's status is, with a sentence if it is an error. */
int request_result(struct op *op, uint64_t status);
/* Sets the sentence of a request that failed, with why. */
int request_fail(struct op *op, int code, const char *why);

/* What a change did, as its reply says. */
struct changed {
	uint64_t version;
	size_t value_bytes;
	int64_t number;
};
/* The loop around a change whose answer may be lost; true: send it again. */
bool fate_resolve(struct kvd_session *s, const struct kvd_receipt *sent, uint64_t deadline_ns,
		  int *result, struct changed *changed);
int fate_ask(struct kvd_session *s, const struct kvd_receipt *receipt, uint64_t deadline_ns,
	     int *result, struct changed *changed);
int check_key(struct kvd_session *s, const void *key, size_t key_bytes);

#endif
