/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sv.h -- what the files of the software device share with each other.
 *
 * Lock order, outermost first:
 *	sv_cm.lock          connection management: ids, channels, their queues
 *	sv_proc.lock        tables of the process, list of peers (mutex)
 *	sv_qp.sq_lock       send queue, and the connection to the peer
 *	sv_cq.lock          completions; of a QP's receive CQ: its receive side
 *	sv_rq.lock, sv_qp_seat.lock, sv_peer.lock, sv_chan.lock, sv_ctx.lock (leaves)
 * No function of the caller runs under a lock, and nothing sleeps under one but
 * the mutexes.
 */
#ifndef COMMON_SOFTVERBS_SV_H
#define COMMON_SOFTVERBS_SV_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/softverbs.h"

#define SV_MAX_SGE 16
#define SV_MAX_INLINE 1024
#define SV_MAX_QP_WR 16384
#define SV_MAX_SRQ_WR 65536
#define SV_MAX_CQE 4194304
#define SV_MAX_RD_ATOMIC 16
#define SV_MAX_MSG_BYTES (1u << 30)
#define SV_EMPTY_POLLS_MAX 64

/* A build with ThreadSanitizer, which gcc and clang tell in two ways; SV_NO_TSAN: one that
 * is instrumented like it and has another runtime (tests/sim). */
#if defined(SV_NO_TSAN)
#elif defined(__SANITIZE_THREAD__)
#define SV_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SV_TSAN 1
#endif
#endif

#define SV_CONTAINER(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

struct sv_peer;
struct sv_qp;
struct sv_draft;

/* ---- fd.c: descriptors that a forked child must not keep ---- */
int sv_fd_track(int fd); /* returns fd */
void sv_fd_close(int fd);
void sv_fd_close_all(void);
/* accept4() for the control thread; -1 and errno. */
int sv_accept_bounded(int listener);

/* ---- ctl.c: the control thread ---- */

/* Something that the control thread watches.  It is freed by the control thread
 * itself, after sv_watch_retire(), so that no event finds it gone. */
struct sv_watch {
	int fd;
	void (*ready)(struct sv_watch *watch, uint32_t events);
	void (*release)(struct sv_watch *watch); /* frees it */
	struct sv_watch *next_retired;
};

int sv_watch_add(struct sv_watch *watch, uint32_t events);
/* Any thread, once.  The control thread closes watch->fd (unless it is -1) and
 * frees; until then ready() may still run, and has to see that the object is
 * over. */
void sv_watch_retire(struct sv_watch *watch);
void sv_ctl_kick(void);
/* The control thread runs again at the latest at this time. */
void sv_ctl_wake_at(uint64_t at_ns);
int sv_ctl_start(void);
bool sv_ctl_is_me(void);

/* ---- proc.c: the process ---- */

/* A place in the table of queue pairs; outlives them. */
struct sv_qp_seat {
	struct sv_spin lock; /* guards qp and taking references to it */
	struct sv_qp *qp;
	/* Receives used and credits given back, since the seat was first used, as
	 * sv_rw_qp.claimed.  Under the lock of the receive CQ of the QP that sits
	 * here; of an empty seat, under sv_proc.lock. */
	uint32_t received;
	uint32_t reclaimed;
	uint32_t rq; /* receive queue of the QP that sits or sat here */
};

struct sv_proc {
	pid_t pid;
	uint32_t slot;
	uint64_t incarnation;
	char fabric[48];
	int ro_fd;
	int rw_fd;
	int kick_fd;
	int epoll_fd;
	int timer_fd;
	struct sv_ro *ro;
	struct sv_rw *rw;
	struct sv_watch listener;
	struct sv_watch kicked;
	struct sv_watch timer;
	_Atomic(struct sv_watch *) retired;
	/* When the control thread wakes by itself; see sv_ctl_wake_at(). */
	_Atomic uint64_t wake_at_ns;
	/* QPs whose send queue waits; one bit each.  seq_cst, against wake_at_ns. */
	_Atomic uint64_t blocked[SV_QPS / 64];

	_Atomic uint32_t next_gen;

	pthread_mutex_t lock; /* all below */
	struct sv_qp_seat seat[SV_QPS];
	/* Taken seats, from creation to the end of destruction. */
	uint64_t seats[SV_QPS / 64];
	struct sv_cq *cq[SV_CQS];
	struct sv_srq *srq[SV_SRQS];
	struct sv_chan *chans;
	struct sv_mr *mrs; /* those in memory that peers can map */
	uint32_t next_qp;
	uint32_t next_pd;
	uint32_t next_chan;
	uint64_t qps_made;
	struct sv_peer *peers;
	struct sv_guest *guests;
	pthread_mutex_t serving;  /* held while this process's memory is used for another */
	pthread_mutex_t nic_lock; /* fault injection: atomics that a CPU can tear */
};

static inline bool sv_seat_taken(const struct sv_proc *p, uint32_t index)
{
	return p->seats[index / 64] >> index % 64 & 1;
}

/* The process's state, made on first use; NULL and errno. */
struct sv_proc *sv_proc_get(void);
/* The same, known to exist. */
extern struct sv_proc *sv_proc;
int sv_random(void *buf, size_t bytes);
/* An abstract unix address "softverbs/<fabric>/<kind>/<name>". */
struct sockaddr_un;
socklen_t sv_address(struct sockaddr_un *sun, const char *kind, const char *name);
/* A sealed memfd, mapped; peers can't make it shorter. */
int sv_memfd(const char *name, size_t bytes);
bool sv_same_user(int fd);
/* Asks the control thread of this process to look at one of its QPs. */
void sv_attention(uint32_t index, uint32_t flags);

/* ---- device.c, async.c ---- */
struct sv_async {
	struct ibv_async_event event;
	struct sv_async *next;
};

struct sv_ctx {
	struct sv_spin lock;
	struct sv_async *head, **tail;
	_Atomic unsigned int users; /* its owner, PDs, CQs, channels, readers of events */
	struct verbs_context vctx;
};

static inline struct sv_ctx *sv_ctx_of(struct ibv_context *context)
{
	return SV_CONTAINER(context, struct sv_ctx, vctx.context);
}

void sv_ctx_get(struct ibv_context *context);
void sv_ctx_put(struct ibv_context *context);

/* Queues an asynchronous event for the QP, CQ or SRQ obj. */
void sv_async_raise(struct ibv_context *context, enum ibv_event_type type, void *obj);
/* Fault injection: such an event of the QP, its send CQ, its SRQ, the port or the device. */
void sv_async_inject(struct ibv_qp *qp, enum ibv_event_type type);
/* Before destruction of obj: drops its events that nobody took. */
void sv_async_drop(struct ibv_context *context, const void *obj);

/* An eventfd with one count for each queued event. */
int sv_bell_open(void);
void sv_bell_ring(int fd);
/* Takes one count if there is one, without blocking. */
void sv_bell_drop(int fd);

/* ---- mem.c: memory that peers can map ---- */
struct sv_mem_view {
	uint32_t id; /* 0: not in such memory */
	uint64_t offset;
	bool sealed;
};
void sv_mem_find(const void *addr, size_t length, struct sv_mem_view *view);
void sv_mem_ref(uint32_t id);
/* True if that was the last region in it. */
bool sv_mem_unref(uint32_t id);
/* A descriptor to hand to a peer, the caller's to close; -1 if the right asked for
 * can't be given by one. */
int sv_mem_export(uint32_t id, bool write, uint64_t *size_bytes);
void sv_mem_forget_all(void);

/* ---- mr.c ---- */
struct sv_pd {
	struct ibv_pd ib;
	uint32_t id;
	_Atomic unsigned int users;
};

struct sv_mr {
	struct ibv_mr ib;
	uint32_t mem;
	uint32_t pd;
	uint32_t access;
	struct sv_mr *next; /* sv_proc.mrs */
};

/* A region as its table entry says, after the checks that every access makes. */
struct sv_target {
	uint32_t mem;
	uint64_t mem_offset; /* of the first byte asked for */
};

/* Looks rkey up in a table.  0, or EACCES. */
int sv_mr_check(const struct sv_ro *ro, uint32_t rkey, uint32_t pd, uint64_t addr,
		uint64_t length, uint32_t access, struct sv_target *target);
/* True if every element lies in a local region with these rights. */
bool sv_sge_check(uint32_t pd, const struct ibv_sge *sge, int nsge, uint32_t access);
uint64_t sv_sge_bytes(const struct ibv_sge *sge, int nsge);

/* ---- copy.c ---- */
/* Memory that others change at the same time is touched in aligned words of 8
 * bytes, each once, in rising order. */
void sv_copy_from_shared(void *dst, const void *shared, size_t bytes);
void sv_copy_to_shared(void *shared, const void *src, size_t bytes);
/* The same in random order of cache lines, with pauses; for fault injection. */
void sv_copy_torn(void *dst, const void *shared, size_t bytes, uint64_t *rng);
uint64_t sv_rng(uint64_t *state);

typedef void sv_copy_fn(void *dst, const void *src, size_t bytes);
void sv_copy_plain(void *dst, const void *src, size_t bytes);
/* Copies between a flat buffer and bytes [offset, offset + bytes) of a list. */
void sv_scatter(const struct ibv_sge *sge, int nsge, uint64_t offset, const void *src,
		size_t bytes, sv_copy_fn *copy);
void sv_gather(const struct ibv_sge *sge, int nsge, uint64_t offset, void *dst, size_t bytes,
	       sv_copy_fn *copy);

/* ---- fault.c ---- */
struct sv_faults {
	uint64_t seed;
	uint32_t torn, ack_lost, flip, error, rnr, overrun; /* per mille */
	uint32_t delay_us;
	uint32_t qp; /* 0: all */
	uint32_t kill_at, kill_after, freeze_at; /* number of a request; 0: never */
	uint32_t event, event_at; /* enum ibv_event_type, number of a request */
	bool noncoherent, partition;
};
extern struct sv_faults sv_faults;
/* False: no fault is asked for, nothing else need be looked at. */
extern _Atomic bool sv_faults_on;
/* From the environment; 0, or EINVAL and a message. */
int sv_fault_env(void);
bool sv_fault_roll(uint64_t *rng, uint32_t per_mille);
/* A request of the process begins: stops it if it is the one.  Returns its number. */
uint32_t sv_fault_request(void);
/* It was executed; nobody knows yet. */
void sv_fault_executed(uint32_t number);

/* ---- channel.c ---- */
struct sv_chan {
	struct ibv_comp_channel ib;
	uint32_t id;
	struct sv_spin lock; /* cqs, and users of ib.refcnt */
	struct sv_cq *cqs;
	struct sv_chan *next; /* sv_proc.chans */
	_Atomic uint32_t readers; /* threads that wait for an event; and if it is over */
	_Atomic unsigned int skip;  /* waits that are not to begin with a spin */
	_Atomic unsigned int skips; /* as many, after the last spin in vain */
};

/* From the environment; 0, or EINVAL and a message. */
int sv_chan_env(void);
void sv_chan_join(struct ibv_comp_channel *channel, struct sv_cq *cq);
/* Events of the CQ that nobody took are gone; the channel stays its own. */
void sv_chan_leave(struct ibv_comp_channel *channel, struct sv_cq *cq);
/* After that: the channel may be destroyed. */
void sv_chan_put(struct ibv_comp_channel *channel);
/* A descriptor on which peers ring channel id; -1. Caller closes. */
int sv_chan_dup(uint32_t id);

/* ---- cq.c ---- */
struct sv_cqe {
	struct ibv_wc wc;
	struct sv_qp *qp;
	uint64_t sq_upto; /* send slots that polling this frees; 0: a receive */
};

struct sv_cq {
	union {
		struct ibv_cq ib;
		struct ibv_cq_ex ex; /* begins with the same members */
	};
	struct sv_spin poll_lock; /* outside of all others; verbs/cq_ex.c */
	struct ibv_wc wc;	  /* the one under way */
	uint32_t index;
	struct sv_spin lock;
	struct sv_cqe *ring;
	uint32_t mask;
	uint32_t first; /* the number that stands in ring[0]; under lock */
	_Atomic uint32_t head; /* next to poll; under lock, peeked at without */
	_Atomic uint32_t tail;
	_Atomic bool overrun;
	uint32_t next_word, next_bit; /* of the ready set: round robin */
	_Atomic unsigned int nblocked; /* QPs with this send CQ that wait */
	_Atomic unsigned int empty_polls;
	_Atomic unsigned int users;
	_Atomic unsigned int events_got;
	_Atomic unsigned int async_got;
	_Atomic uint32_t armings; /* in steps of SV_ARMED_MASK + 1 */
	uint32_t rung_seen; /* of sv_rw_cq.rung, the events taken; sv_chan.lock */
	struct sv_cq *next; /* sv_chan.cqs */
};

static inline struct sv_cq *sv_cq_of(struct ibv_cq *cq)
{
	return SV_CONTAINER(cq, struct sv_cq, ib);
}

int sv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc);
int sv_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
/* The CQ is full, and useless from now on; cq->lock held. */
void sv_cq_overrun_locked(struct sv_cq *cq);
/* A completion, zeroed, to be filled in where it stays and then pushed; NULL: overrun.
 * cq->lock held for both. */
struct ibv_wc *sv_cq_slot_locked(struct sv_cq *cq, struct sv_qp *qp, uint64_t sq_upto);
void sv_cq_push_locked(struct sv_cq *cq);
/* Wakes the channel if the CQ is armed for such a completion. */
void sv_cq_notify(struct sv_cq *cq, bool solicited);
/*
 * After a completion was added: whether to write an event, which is pending then; with
 * what is to be said once it is written.  armed: the word as it was seen.
 */
bool sv_armed_take(struct sv_rw_cq *rw, uint32_t armed, bool solicited, uint32_t *taken);
void sv_armed_done(struct sv_rw_cq *rw, uint32_t taken);
/* Writes the channel's descriptor: an event is pending. */
void sv_cq_ring_channel(struct sv_cq *cq);
/* Takes the QP's completions out; any lock but leaves must be free. */
void sv_cq_clean(struct sv_cq *cq, struct sv_qp *qp);

/* ---- rq.c ---- */
struct sv_rwqe {
	uint64_t wr_id;
	uint32_t len;
	uint32_t nsge;
	struct ibv_sge sge[];
};

struct sv_rq {
	struct sv_spin lock;
	uint32_t index; /* in the tables of receive queues */
	uint32_t depth; /* entries, also the bound of tail - head */
	uint32_t max_sge;
	uint32_t stride_bytes;
	uint8_t *ring;
	uint32_t head; /* next to be used */
	uint32_t tail; /* next to be posted */
	uint32_t posted;
	uint32_t limit;
	struct sv_srq *srq;
};

struct sv_srq {
	struct ibv_srq ib;
	struct sv_rq rq;
	_Atomic unsigned int users;
	_Atomic unsigned int async_got;
};

static inline struct sv_srq *sv_srq_of(struct ibv_srq *srq)
{
	return SV_CONTAINER(srq, struct sv_srq, ib);
}

int sv_rq_init(struct sv_rq *rq, uint32_t index, uint32_t depth, uint32_t max_sge);
void sv_rq_fini(struct sv_rq *rq);
int sv_rq_post(struct sv_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Takes the next receive; out has room for max_sge elements.  False: none. */
bool sv_rq_pop(struct sv_rq *rq, struct sv_rwqe *out);
void sv_rq_give_credits(struct sv_rq *rq, uint32_t n);
void sv_rq_clear(struct sv_rq *rq);
int sv_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- qp.c, qp_state.c, fail.c ---- */

/* How far a request was executed. */
enum sv_stage {
	SV_STAGE_START,
	SV_STAGE_ASKED,	  /* RDMA: the peer's control thread is at it */
	SV_STAGE_WRITTEN, /* WRITE with immediate: data is there */
	SV_STAGE_CLAIMED, /* SEND: has its credit */
	SV_STAGE_PUSHED,  /* SEND: all in the ring, waits until it is taken */
};

/* A send work request while it waits in the queue. */
struct sv_wqe {
	uint64_t wr_id;
	uint64_t number; /* of this request since the QP was made, from 1 */
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint64_t len;
	uint64_t done; /* bytes staged or copied so far */
	uint32_t rkey;
	uint32_t imm;
	uint16_t opcode; /* enum ibv_wr_opcode */
	uint16_t flags;	 /* enum ibv_send_flags, SV_SEND_ACKED */
	uint16_t nsge;
	uint8_t stage; /* enum sv_stage */
	uint8_t rnr_tries;
	union {
		struct ibv_sge sge[1];
		uint8_t data[16]; /* with IBV_SEND_INLINE */
	};
};

/* A peer's memory that this QP has used. */
struct sv_map_hint {
	uint32_t mem;
	bool write;
	uint8_t *base;
	uint64_t size_bytes;
};
#define SV_MAP_HINTS 4
/* A SEND that may be longer than the receive that it gets: done when taken. */
#define SV_SEND_ACKED 0x8000

enum sv_block {
	SV_BLOCK_NONE,
	SV_BLOCK_DELAY,	 /* fault injection */
	SV_BLOCK_LINK,	 /* peer not there, or not ready */
	SV_BLOCK_RNR,	 /* no receive posted */
	SV_BLOCK_ROOM,	 /* ring full, or waiting to be taken */
	SV_BLOCK_REPLY,	 /* the peer's control thread owes an answer */
};

struct sv_qp {
	union {
		struct ibv_qp ib;
		struct ibv_qp_ex ex; /* begins with it */
	};
	struct sv_draft *draft; /* NULL: not of sv_create_qp_ex() */
	uint32_t index;
	uint32_t qpn;
	_Atomic unsigned int refs; /* taken under the seat's lock */
	_Atomic unsigned int async_got;
	struct sv_ro_qp *ro;
	struct sv_rw_qp *rw;
	struct ibv_qp_attr attr; /* under sq_lock */
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	/* Copies that the data path reads under sq_lock. */
	uint64_t budget_ns; /* how long an unanswered request lasts */
	uint64_t rng;

	struct sv_spin sq_lock;
	uint8_t *sq; /* requests that wait, in order; both 0 when there are none */
	uint32_t wqe_bytes;
	uint32_t sq_head, sq_count;
	uint64_t posted;
	_Atomic uint64_t polled; /* release after the poll, acquire by post */
	bool flushed; /* entered error, and flushed */
	enum sv_block block;
	bool counted; /* in send_cq.nblocked and sv_proc.blocked */
	bool delayed; /* the request's injected delay has begun */
	uint32_t fault_number; /* of the request, as sv_fault_request() counts */
	uint32_t serial;       /* of this queue pair in its process, from 1 */
	_Atomic uint64_t deadline_ns;
	uint64_t first_ns; /* since when the peer does not answer; 0 */
	bool to_wake;      /* the receiver of messages that were sent */
	bool to_wake_solicited;
	bool awaits_link;  /* the peer's process has not answered at all yet */

	/* The peer; under sq_lock, and changed under that of the receive CQ too. */
	struct sv_peer *peer;
	uint32_t peer_qpn;
	uint32_t peer_gen; /* 0: not seen ready yet */
	struct sv_map_hint hint[SV_MAP_HINTS];
	uint32_t next_hint;

	/* Sending into the peer's ring; under sq_lock. */
	struct sv_wire *tx;
	uint32_t tx_tail;
	uint32_t tx_head;
	uint32_t pay_tail, pay_head;
	uint32_t pay_end[SV_DESCS];

	/* Remote access by the peer's control thread; under sq_lock. */
	uint32_t slow_serial; /* of the request under way */
	uint64_t slow_issued;
	uint32_t slow_open; /* parts sent and not answered */

	/* Receive side; under the lock of the receive CQ. */
	struct sv_wire *rx;
	uint32_t rx_head;
	bool rx_closed;	 /* nothing more is taken from the ring */
	bool rx_partial; /* rx_wqe is half filled */
	uint32_t rx_done;
	uint32_t rx_total;
	uint32_t rx_pd;
	struct sv_rwqe *rx_wqe;
	struct sv_rq *rq;
	struct sv_rq own_rq;
};

static inline struct sv_qp *sv_qp_of(struct ibv_qp *qp)
{
	return SV_CONTAINER(qp, struct sv_qp, ib);
}
/* Slot n of the send queue; sq_lock held. */
static inline struct sv_wqe *sv_wqe_at(struct sv_qp *qp, uint32_t n)
{
	return (struct sv_wqe *)(void *)(qp->sq + (size_t)n * qp->wqe_bytes);
}
/* Nobody acknowledges: what is lost on the way, or refused, is lost in silence. */
static inline bool sv_qp_unreliable(const struct sv_qp *qp)
{
	return qp->ib.qp_type == IBV_QPT_UC;
}
static inline uint32_t sv_qp_state(const struct sv_qp *qp)
{
	return atomic_load_explicit(&qp->ro->state, memory_order_acquire);
}

/* Faults are injected into this queue pair's requests. */
static inline bool sv_qp_faulty(const struct sv_qp *qp)
{
	/* acquire: partner sv_fault_set(). */
	return atomic_load_explicit(&sv_faults_on, memory_order_acquire) &&
	       (!sv_faults.qp || sv_faults.qp == qp->serial);
}

/* The QP in seat index, with a reference; NULL. */
struct sv_qp *sv_qp_get(uint32_t index);
void sv_qp_put(struct sv_qp *qp);
/* Enters the error state and flushes both queues; sq_lock held. */
void sv_qp_fail_locked(struct sv_qp *qp);
/* From anywhere: error state at once, the rest by the control thread. */
void sv_qp_fail_later(struct sv_qp *qp, enum sv_fault_code code);
/* After a receive was posted to a QP in error. */
void sv_qp_flush_rq(struct sv_qp *qp);
/* Control thread: a QP's attention word was set. */
void sv_qp_attend(uint32_t index);
/* Control thread: the peer's process is gone. */
void sv_qp_peer_gone(struct sv_peer *peer);

/* ---- post.c ---- */
int sv_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* An array of n requests: all of them, or none. */
int sv_post_all(struct sv_qp *qp, struct ibv_send_wr *wr, uint32_t n);
int sv_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- exec.c ---- */
/* Executes what can be executed; sq_lock held. */
void sv_progress_locked(struct sv_qp *qp);
/* The same if nobody else is at it. */
void sv_progress(struct sv_qp *qp);
/* Completes every waiting request as flushed; sq_lock held. */
void sv_flush_sq_locked(struct sv_qp *qp);
/* Leaves the set of waiting QPs; sq_lock held. */
void sv_unblock_locked(struct sv_qp *qp);
/* Progress of QPs that wait: those of a CQ, those of a peer, or (both NULL) those
 * whose time has come; returns the earliest deadline of the rest. */
uint64_t sv_progress_blocked(struct sv_cq *cq, struct sv_peer *peer);
/* An answer from the peer's control thread: part of the request with this serial. */
void sv_slow_answer(uint32_t index, uint32_t serial, uint32_t status, uint64_t offset,
		    uint64_t result, void *data, uint32_t bytes);

/* Outcomes of executing a request. */
enum sv_outcome { SV_DONE, SV_WAIT };
/* The peer does not answer: waits, or gives up when the budget is spent. */
enum sv_outcome sv_wait_peer(struct sv_qp *qp, uint32_t *status);
/* The same, where the peer's control thread was asked, which may be slow. */
enum sv_outcome sv_wait_answer(struct sv_qp *qp, uint32_t *status);
enum sv_outcome sv_wait(struct sv_qp *qp, enum sv_block why, uint64_t for_ns);
/* True if the peer's QP is connected to this one and takes requests. */
bool sv_peer_ready(struct sv_qp *qp);

/* ---- qp_ex.c ---- */
void sv_draft_free(struct sv_draft *draft);

/* ---- device.c: what only a context's table names ---- */
int sv_query_port_ex(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		     size_t attr_bytes);
int sv_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

/* ---- wire.c ---- */
/* After messages to it: qp->to_wake.  The send queue is locked. */
void sv_wake_receiver(struct sv_qp *qp);
enum sv_outcome sv_exec_send(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status);
/* Takes up to max messages from the ring; receive CQ's lock held. Returns how
 * many completions it added. */
int sv_wire_drain_locked(struct sv_qp *qp, int max, bool *again);
void sv_wire_detach(struct sv_qp *qp);

/* ---- remote.c ---- */
enum sv_outcome sv_exec_rdma(struct sv_qp *qp, struct sv_wqe *wqe, uint32_t *status);

#endif
