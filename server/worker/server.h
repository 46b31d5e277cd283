/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.h -- what the threads of kvd share.
 *
 * Threads: the main thread (connections, asynchronous events, signals) and the
 * workers.  A connection belongs to the main thread until conn_hand_over(), then
 * to its worker, then to the main thread again to be buried.  doc/threads.md has
 * the whole picture.
 */
#ifndef SERVER_WORKER_SERVER_H
#define SERVER_WORKER_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/addr.h"
#include "common/rdma/device.h"
#include "common/rdma/link.h"
#include "common/spin.h"
#include "common/wire.h"
#include "server/durable/options.h"
#include "server/worker/deferred.h"
#include "server/worker/fate.h"
#include "server/access/gate.h"
#include "server/access/rate_limit.h"
#include "server/lock/locker.h"
#include "server/host/namespace.h"
#include "server/worker/news.h"
#include "server/worker/owed.h"
#include "server/store/store.h"
#include "server/worker/timing.h"

enum poll_policy { POLL_ADAPTIVE, POLL_BUSY, POLL_EVENT };

struct options {
	const char *listen;
	const char *device;
	const char *bootstrap;
	uint64_t memory_bytes;
	int workers;
	int poll;
	int connections;
	int lease_ms;
	const char *users;
	const char *user; /* to become; NULL: stay who it is */
	bool insecure;
	bool check;
	int handshakes; /* a second and address; 0: any number */
	struct durable_options durable; /* dir NULL: no database */
	const char *ready_file;
	const char *config;
	int log_level;
	int log_to;
	const char *metrics;
	int slow_ms;
	struct opt_list namespace_list;
	struct namespace_options namespaces[NAMESPACES_MAX];
	unsigned namespace_count;
	bool evict;
};

/* An address that is served; the first one's is in every message. */
#define LISTENERS_MAX 16
struct listener {
	struct addr addr;
	struct rdma_cm_id *id;
};

/* What the namespaces of a kvd share: the main thread's, but where said. */
struct host {
	struct rdma_event_channel *channel;
	struct listener listeners[LISTENERS_MAX];
	unsigned listener_count;
	/* The first is the one without a name.  Not changed once connections are taken. */
	struct server *servers;
	unsigned server_count;
	unsigned worker_count; /* of all of them */
	struct knock *knock; /* any thread */
	struct http *http;   /* NULL: no --metrics */
	struct watch *watch;
	uint64_t conn_last_id;
	uint64_t looked_ns;
	int signal_fd;

	/* Connections that their workers are done with. */
	pthread_mutex_t done_lock;
	struct conn *done;
	int done_fd; /* eventfd */
};

/* One namespace: a table and all that serves it. */
struct server {
	struct host *host;
	char name[SPACE_NAME_BYTES_MAX + 1]; /* "": the one without */
	uint64_t space;         /* space_number() of it */
	unsigned worker_first;  /* its first one, counted through all namespaces */
	struct options options; /* kvd's, with what is its own in their place */
	struct addr addr;
	struct device device;
	const struct verbs *verbs;
	struct link_limits limits;

	struct ibv_context *ctx; /* the listener's */
	uint8_t port;
	struct ibv_pd *pd;
	struct table *table;
	struct store *store;
	char *data_dir;          /* of a namespace with a name, where durable */
	struct durable *durable; /* NULL: no database */
	struct locker *locker; /* NULL: the device has no atomics */
	struct gate *gate;
	struct fates *fates;
	struct news *news;
	struct worker *workers;
	unsigned worker_count;

	/* Changed by the main thread only; others read under the lock. */
	pthread_mutex_t conns_lock;
	struct conn *conns;
	unsigned conn_count;

	bool timed; /* somebody wants to know how long requests take */
	_Atomic uint64_t connections; /* ready ones */
	_Atomic uint64_t pending;     /* have not said a good hello */
	_Atomic uint64_t refused;
	_Atomic uint64_t denied;      /* hellos */
	_Atomic uint64_t forbidden;   /* requests that the user may not make */
	_Atomic uint64_t rkey_changes;
	_Atomic uint64_t wrong_rights; /* of a queue pair, found by asking the device */
	_Atomic uint64_t protocol_errors;
	uint64_t start_ns;
	uint64_t instance; /* random: tells clients one start of kvd from the next */
};

enum conn_state {
	CONN_NEW,     /* accepted; has said nothing */
	CONN_DENIED,  /* said hello, and proved nothing: to be told, and closed */
	CONN_READY,   /* said hello and has its rights */
	CONN_CLOSING, /* queue pair in error, draining */
};

struct conn {
	struct server *server;
	struct worker *worker;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct addr peer;
	uint64_t connection_id;
	uint32_t credits;
	uint32_t inline_bytes;
	uint8_t rd_atom;
	uint64_t since_ns;
	struct conn *next; /* of the list or inbox that it is in */
	struct conn *all_next, **all_prev; /* main thread */

	struct handshake handshake;
	atomic_bool said_hello;     /* set before it gets any right */
	_Atomic uint64_t denied_ns; /* when its hello was found to prove nothing */

	/* Set by the main thread. */
	bool denial_told;
	_Atomic(const char *) drop_reason; /* set before `disconnected` */
	atomic_bool disconnected; /* partner: worker's conn_progress */
	atomic_bool last_wqe;
	struct locker_note *lock_note; /* of its end; NULL: there is no locker */
	/* Set by the locker: it does not know the connection any more. */
	atomic_bool lock_idle;

	/* Worker only, from here. */
	enum conn_state state;
	bool draining; /* closing, and what it left with others is forgotten */
	uint32_t sq_used;
	uint32_t sq_depth;
	uint32_t unsignaled;
	uint32_t outstanding; /* requests without a reply */
	uint32_t hello_id;
	_Atomic uint64_t stuck_ns; /* since when the first of `sends` waits; 0: there is none */
	uint32_t sends;  /* with a buffer, not yet completed */
	uint32_t pulls;
	uint32_t commits; /* changes of it that wait for the disk */
	uint64_t close_ns; /* give up waiting at */
	struct tx *chain, **chain_end; /* replies of this round */
	struct conn *dirty_next;
	bool is_dirty;
	struct layout_item *copy; /* of a WIRE_GET */
	uint64_t held_addr;       /* the tokens that the client says it holds */
	uint32_t held_rkey;
	bool reads_held;
	bool takes_notices;
	uint64_t look; /* for which it is read */
	struct fate_ring *fate; /* from its hello on */
	uint64_t news_seen;
	struct conn *map_next;    /* by queue pair number */
	struct conn *worker_next, **worker_prev;
};

/* A buffer for one message out. */
struct tx {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct conn *conn;
	struct tx *next;
	uint8_t *data; /* WIRE_MESSAGE_BYTES_MAX */
};

#define WC_STATUSES 24u

struct worker_stats {
	_Atomic uint64_t requests[WIRE_OPS];
	_Atomic uint64_t not_found;
	_Atomic uint64_t failed;
	_Atomic uint64_t aside;
	_Atomic uint64_t pull_bytes;
	_Atomic uint64_t pulls;
	_Atomic uint64_t wc_errors[WC_STATUSES]; /* by enum ibv_wc_status */
};

#define WORKER_MAP 1024u

struct worker {
	struct server *server;
	unsigned id;
	pthread_t thread;
	struct store_worker store;
	struct worker_stats stats;
	struct timing timing[WIRE_OPS];
	_Atomic uint64_t beat; /* counts rounds; partner: metrics_healthy */
	uint64_t begun_ns; /* the request under way, 0: nobody wants to know */
	uint64_t clock_ms; /* kvd's, since the requests under way came in; 0: ask for it */
	uint64_t slow_since_ns;
	unsigned slow_count;
	/* Of the thread that asks whether kvd is well. */
	uint64_t seen_beat, seen_ns;

	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned events; /* to be acknowledged */
	struct ibv_srq *srq;

	uint8_t *memory; /* rx and tx buffers */
	size_t memory_bytes;
	struct ibv_mr *mr;
	uint32_t rx_count;
	uint32_t *rx_free; /* buffers to be posted */
	uint32_t rx_free_count;
	uint32_t rx_posted;
	uint32_t credits; /* of its connections */
	struct tx *tx;
	uint32_t tx_count;
	struct tx *tx_free;
	struct pull *pull_free;
	struct pull *pulls;

	struct deferred deferred;
	struct durable_op *committed, **committed_end; /* for which there was no tx buffer yet */
	struct owed *owed, *owed_free; /* NULL without a database */
	struct conn *dirty;
	struct conn *map[WORKER_MAP];
	struct conn *conns;
	_Atomic unsigned load; /* connections: main thread adds, worker subtracts */
	unsigned closing;
	struct spin spin;

	/* Inbox: what other threads ask for. */
	pthread_mutex_t inbox_lock;
	struct command *inbox, **inbox_end;
	int wake_fd; /* eventfd */
	atomic_bool poked;
	atomic_bool trim; /* its heap, when it is poked */
	atomic_bool stopping;
};

/* worker.c */
int worker_new(struct server *server, struct worker *worker, unsigned id, struct err *err);
int worker_start(struct worker *worker, struct err *err);
/* Any thread: makes the worker look at its inbox and flags. */
void worker_wake(struct worker *worker);
/* False if there is no memory. */
bool worker_give(struct worker *worker, struct conn *conn);
/* The locker: answers a request; reads what a connection says it holds; cuts it off. */
void worker_answer(struct conn *conn, const struct wire_request *request,
		   enum wire_status status);
void worker_read_held(struct server *server, uint64_t connection, uint64_t look);
/* secret: 0, or the connection's own: otherwise it stays. */
void worker_fence_id(struct server *server, uint64_t connection, uint64_t secret);
/* Any thread: to every client that takes notices; what can't be sent now is not. */
void worker_notice_all(struct server *server, enum wire_notice notice);
/* Any thread: every worker gives back what its heap keeps unused (heap_trim), soon. */
void worker_trim_all(struct server *server);
/* The main thread: tells a connection whose hello was denied. */
void worker_deny(struct conn *conn);
/* Whether a connection is not yet destroyed.  Any thread. */
bool server_knows(struct server *server, uint64_t connection_id);
/* Asks for an orderly end and waits for it. */
void worker_stop(struct worker *worker);
void worker_delete(struct worker *worker);
/* The locker: nothing waits for the connection any more, which may be gone right after. */
void conn_forgotten(struct conn *conn);
/* Its worker: marks its end.  The queue pair is in error when this returns; the rest is done
 * by the next look at connections that close (drain.c). */
void conn_close(struct conn *conn, const char *reason);

/* request.c: one request, worker thread only. */
enum request_fate {
	REQUEST_DONE,  /* the buffer may be used again */
	REQUEST_ASIDE, /* try again later */
};
/* hash: what request_prefetch() gave, or NULL. */
enum request_fate request_handle(struct worker *worker, struct conn *conn, const uint8_t *message,
				 uint32_t bytes, const struct hash *hash);
/* What no client of libkvd does: counted, and the end of the connection. */
void request_malformed(struct conn *conn, const char *wrong);
/* Fetches into the cache what the request will look at, for those that were received
 * together, and hashes its key; false: it has none.  Nothing of the message is believed. */
bool request_prefetch(const struct worker *worker, const uint8_t *message, uint32_t bytes,
		      struct hash *hash);
void request_answer_busy(struct worker *worker, struct conn *conn, const uint8_t *message);
/* A change's record came back from the disk.  Caller: has seen that there is a tx buffer. */
void request_committed(struct worker *worker, struct commit *commit);

/* reply.c */
struct tx *reply_new(struct worker *worker, struct conn *conn, const struct wire_request *request,
		     enum wire_status status);
static inline struct wire_reply *reply_head(struct tx *tx)
{
	return (struct wire_reply *)tx->data;
}
static inline uint8_t *reply_payload(struct tx *tx)
{
	return tx->data + sizeof(struct wire_reply);
}
#define REPLY_PAYLOAD_MAX (WIRE_MESSAGE_BYTES_MAX - sizeof(struct wire_reply))
void reply_send(struct worker *worker, struct tx *tx, size_t payload_bytes);
/* Answers with a status alone; with the result of a change, whose fate is noted, and what
 * is new in the index.  Caller: has seen that there is a tx buffer. */
void reply_answer(struct worker *worker, struct conn *conn, const struct wire_request *request,
		  enum wire_status status);
void reply_answer_result(struct worker *worker, struct conn *conn,
			 const struct wire_request *request, enum wire_status status,
			 const struct store_result *result);
/* Posts the replies of this round, one chain per connection. */
void reply_flush(struct worker *worker);
void reply_completed(struct worker *worker, struct tx *tx);
void tx_free(struct worker *worker, struct tx *tx);

/* pull.c: values that kvd READs from the client's memory */
#define PULLS 64u
int pulls_new(struct worker *worker);
void pulls_delete(struct worker *worker);
enum request_fate pull_start(struct worker *worker, struct conn *conn,
			     const struct wire_request *request, const uint8_t *key,
			     const void *segments);
void pull_completed(struct worker *worker, struct pull *pull, const struct ibv_wc *wc);
/* Pulls that are complete but were in the way of a lock: try again. */
void pulls_retry(struct worker *worker);
bool pulls_waiting(const struct worker *worker);

/* A signalled work request's wr_id: a pointer, its kind, the sends it reports. */
enum wr_kind { WR_NONE, WR_TX, WR_PULL, WR_HELD };
static inline uint64_t wr_pack(const void *ptr, enum wr_kind kind, uint32_t count)
{
	return (uint64_t)(uintptr_t)ptr | kind | (uint64_t)count << 48;
}
static inline void *wr_ptr(uint64_t wr_id)
{
	return (void *)(uintptr_t)(wr_id & 0xfffffffffff8ull);
}
static inline enum wr_kind wr_kind(uint64_t wr_id)
{
	return (enum wr_kind)(wr_id & 7);
}
static inline uint32_t wr_count(uint64_t wr_id)
{
	return (uint32_t)(wr_id >> 48);
}

/* stats.c: the sum of a member of struct worker_stats over all workers. */
uint64_t stats_sum(const struct server *server, size_t offset);
#define STATS_SUM(server, member) stats_sum(server, offsetof(struct worker_stats, member))
const char *stats_op_name(unsigned op);
/* kvd's figures as JSON; the length. */
size_t stats_json(const struct server *server, char *buf, size_t buf_bytes);

/* server.c: main thread; 0, or -1 after setting err. */
/* Makes s the namespace `o` beside `first`, whose device is open, and nothing else is. */
void server_name(struct server *s, const struct server *first, const struct namespace_options *o);
int server_new(struct server *s, struct err *err);
int server_load(struct server *s, struct err *err);
int server_start(struct server *s, struct err *err);
/* Closes the database of one that did not get as far as to be served. */
void server_abandon(struct server *s);
void server_delete(struct server *s);
/* The gate: what the table's rkeys are now. */
void server_tell_rkeys(struct server *s);

/* server/host/loop.c: main thread */
/* Opens the device for the first of the host's servers: addr, ctx. */
int listen_start(struct host *host, struct err *err);
int listen_run(struct host *host); /* until a signal asks to stop */
void listen_stop(struct host *host);

/* server/host/accept.c: any thread: whether its queue pair has just these remote rights; else it is
 * in error. */
bool conn_check_rights(struct conn *conn, int rights);
/* server/host/reap.c */
void conn_done(struct conn *conn); /* worker: gives it back */
/* Any thread: has its worker end it; `reason` is static. */
void conn_drop(struct conn *conn, const char *reason);

#endif
