/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_state.c -- connection management: what becomes of an id in each state by each message, by the
 * end of its socket and by its deadline, and what the event says.
 */
#include <sys/epoll.h>
#include "tests/unit/softverbs/cm_lock.h"
#include "tests/unit/softverbs/events.h"
#include "common/softverbs/base/fd.h"
#include "common/softverbs/base/lock.h"
#include "common/softverbs/base/shm.h"
#include "common/softverbs/cm/accept.h"
#include "common/softverbs/cm/conn.h"
#include "common/softverbs/cm/connect.h"
#include "common/softverbs/cm/event.h"
#include "common/softverbs/cm/sock.h"

#define HOUR_NS 3600000000000ull

/* ---- an id in some state, and the other end of its socket ---- */

struct one {
	struct rdma_event_channel *ch;
	struct sv_id *id;
	int far;
};

static void on_ready(struct sv_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
}

/* The lock is held from here on. */
static void begin(struct one *o, enum rdma_port_space ps, enum sv_cm_state state)
{
	struct rdma_cm_id *id;
	int pair[2];

	o->ch = sv_create_event_channel();
	CHECK(o->ch && !fcntl(o->ch->fd, F_SETFL, O_NONBLOCK));
	CHECK(!sv_create_id(o->ch, &id, o, ps));
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair));
	pthread_mutex_lock(&sv_cm.lock);
	o->id = sv_id_of(id);
	o->id->sock = sv_cm_new_sock(sv_fd_track(pair[0]), o->id);
	CHECK(o->id->sock);
	o->id->sock->watch.ready = on_ready;
	o->id->state = state;
	o->id->deadline_ns = sv_now_ns() + HOUR_NS;
	o->far = pair[1];
}

/* Lets go of the lock. */
static struct rdma_cm_event *told(struct one *o)
{
	struct rdma_cm_event *ev = NULL;

	pthread_mutex_unlock(&sv_cm.lock);
	if (sv_get_cm_event(o->ch, &ev))
		CHECK(errno == EAGAIN);
	return ev;
}

static void end(struct one *o, struct rdma_cm_event *ev)
{
	CHECK(!ev || !sv_ack_cm_event(ev));
	o->id->state = SV_CM_OVER; /* nothing is left to be said */
	CHECK(!sv_destroy_id(&o->id->id));
	sv_destroy_event_channel(o->ch);
	close(o->far);
}

/* ---- each state, and what may happen ---- */

enum { END = 100, LATE };

struct outcome {
	int what; /* a message's type, END, or LATE */
	enum sv_cm_state from, to;
	enum rdma_cm_event_type event;
	int status;
	bool closes, timewait;
};

#define REASON 0x1234

static const struct outcome outcomes[] = {
	{ SV_CM_REP, SV_CM_CONNECTING, SV_CM_RESPONDED, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, false, false },
	{ SV_CM_REJ, SV_CM_CONNECTING, SV_CM_OVER, RDMA_CM_EVENT_REJECTED, REASON, true, false },
	{ SV_CM_REJ, SV_CM_REQUESTED, SV_CM_OVER, RDMA_CM_EVENT_REJECTED, REASON, true, false },
	{ SV_CM_REJ, SV_CM_ACCEPTED, SV_CM_OVER, RDMA_CM_EVENT_REJECTED, REASON, true, false },
	{ SV_CM_RTU, SV_CM_ACCEPTED, SV_CM_CONNECTED, RDMA_CM_EVENT_ESTABLISHED, 0, false, false },
	{ SV_CM_DREQ, SV_CM_RESPONDED, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ SV_CM_DREQ, SV_CM_REQUESTED, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ SV_CM_DREQ, SV_CM_ACCEPTED, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ SV_CM_DREQ, SV_CM_CONNECTED, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ SV_CM_DREQ, SV_CM_DISCONNECTING, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ SV_CM_DREP, SV_CM_DISCONNECTING, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ END, SV_CM_CONNECTING, SV_CM_OVER, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET, true, false },
	{ END, SV_CM_RESPONDED, SV_CM_OVER, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET, true, false },
	{ END, SV_CM_ACCEPTED, SV_CM_OVER, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET, true, false },
	{ END, SV_CM_CONNECTED, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ END, SV_CM_DISCONNECTING, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ LATE, SV_CM_CONNECTING, SV_CM_OVER, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, true, false },
	{ LATE, SV_CM_ACCEPTED, SV_CM_OVER, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, true, false },
	{ LATE, SV_CM_DISCONNECTING, SV_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED, 0, false, true },
	{ LATE, SV_CM_DISCONNECTED, SV_CM_OVER, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, true, false },
};

static const struct outcome *outcome_of(int what, enum sv_cm_state from)
{
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
		if (outcomes[i].what == what && outcomes[i].from == from)
			return &outcomes[i];
	}
	return NULL;
}

static void happen(struct sv_id *id, int what)
{
	struct sv_cm_msg msg = { .type = (uint32_t)what, .abi = SV_ABI_VERSION, .reason = REASON };

	if (what == END)
		sv_cm_on_end(id);
	else if (what == LATE)
		sv_cm_is_late(id);
	else
		sv_cm_on_message(id, &msg);
}

/* A time wait is a second, and the timers run when it is over. */
static void check_deadline(const struct one *o, int what, const struct outcome *outcome, uint64_t before_ns)
{
	uint64_t now = sv_now_ns();

	if (outcome && outcome->timewait) {
		CHECK(o->id->deadline_ns >= before_ns + 1000000000u && o->id->deadline_ns <= now + 1000000000u);
		CHECK(atomic_load(&sv_cm.next_ns) <= o->id->deadline_ns);
	} else if (outcome || what == LATE) {
		CHECK(o->id->deadline_ns == UINT64_MAX);
	} else {
		CHECK(o->id->deadline_ns >= before_ns + HOUR_NS / 2 && o->id->deadline_ns != UINT64_MAX);
	}
}

/* Who is told to disconnect says that it is; nobody else says anything. */
static void check_said(const struct one *o, int what, const struct outcome *outcome)
{
	struct sv_cm_msg msg;
	ssize_t n = recv(o->far, &msg, sizeof(msg), MSG_DONTWAIT);

	if (what == SV_CM_DREQ && outcome) {
		CHECK(n == sizeof(msg) && msg.type == SV_CM_DREP && msg.abi == SV_ABI_VERSION);
		n = recv(o->far, &msg, sizeof(msg), MSG_DONTWAIT);
	}
	if (outcome && outcome->closes)
		CHECK(!n && !o->id->sock);
	else
		CHECK(n == -1 && errno == EAGAIN && o->id->sock);
}

static void try_one(int what, enum sv_cm_state from)
{
	const struct outcome *outcome = outcome_of(what, from);
	uint64_t before_ns = sv_now_ns();
	struct rdma_cm_event *ev;
	struct one o;

	begin(&o, RDMA_PS_TCP, from);
	happen(o.id, what);
	CHECK(o.id->state == (outcome ? outcome->to : from));
	CHECK(o.id->gone == (what == END && from == SV_CM_REQUESTED));
	check_deadline(&o, what, outcome, before_ns);
	check_said(&o, what, outcome);
	o.id->state = SV_CM_IDLE; /* nobody runs its timers */
	o.id->deadline_ns = UINT64_MAX;
	ev = told(&o);
	CHECK(!ev == !outcome);
	if (ev)
		CHECK(ev->id == &o.id->id && ev->event == outcome->event && ev->status == outcome->status);
	end(&o, ev);
}

static void each_state(int sock)
{
	static const int whats[] = { 0, SV_CM_REQ, SV_CM_REP, SV_CM_RTU, SV_CM_REJ, SV_CM_DREQ, SV_CM_DREP,
				     SV_CM_DREP + 1, END, LATE };

	(void)sock;
	watch_lock();
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
		for (int state = SV_CM_IDLE; state <= SV_CM_OVER; state++)
			try_one(whats[i], (enum sv_cm_state)state);
	}
}

static void test_states(void **state)
{
	(void)state;
	kit_run(each_state, kit_nothing);
}

/* ---- what messages say ---- */

/* Whatever was not looked at is something else. */
static struct sv_cm_msg message(uint32_t type)
{
	struct sv_cm_msg msg = { .type = type, .abi = SV_ABI_VERSION, .qpn = 0x123456, .psn = 0x654321, .reason = 4,
				 .responder_resources = 5, .initiator_depth = 9, .flow_control = 1,
				 .retry_count = 0xf3, .rnr_retry_count = 0xf4, .srq = 1, .ack_timeout = 0xe9 };

	for (size_t i = 0; i < sizeof(msg.data); i++)
		msg.data[i] = (uint8_t)(i + 1);
	msg.src.sin6_family = AF_INET6;
	msg.src.sin6_port = htons(0x1112);
	msg.src.sin6_addr = in6addr_loopback;
	msg.dst = msg.src;
	msg.dst.sin6_port = htons(0x1314);
	return msg;
}

static bool is_data(const void *data, const struct sv_cm_msg *msg, size_t bytes)
{
	return data && !memcmp(data, msg->data, bytes);
}

static void check_conn(const struct rdma_conn_param *conn, const struct sv_cm_msg *msg, uint8_t bytes)
{
	CHECK(conn->private_data_len == bytes && is_data(conn->private_data, msg, bytes));
	CHECK(conn->responder_resources == 9 && conn->initiator_depth == 5);
	CHECK(conn->flow_control == 1 && conn->retry_count == 0xf3 && conn->rnr_retry_count == 0xf4);
	CHECK(conn->srq == 1 && conn->qp_num == 0x123456);
}

static void answers(int sock)
{
	struct sv_cm_msg rep = message(SV_CM_REP), rej = message(SV_CM_REJ);
	struct rdma_cm_event *ev;
	struct one o;

	(void)sock;
	watch_lock();
	begin(&o, RDMA_PS_TCP, SV_CM_CONNECTING);
	o.id->retry_count = 2;
	sv_cm_on_message(o.id, &rep);
	CHECK(o.id->remote_qpn == 0x123456 && o.id->remote_psn == 0x654321);
	CHECK(o.id->responder_resources == 9 && o.id->initiator_depth == 5);
	CHECK(o.id->rnr_retry_count == 4 && o.id->peer_ack_timeout == 9 && o.id->retry_count == 2);
	ev = told(&o);
	CHECK(ev && ev->event == RDMA_CM_EVENT_CONNECT_RESPONSE && !ev->listen_id);
	check_conn(&ev->param.conn, &rep, 196);
	end(&o, ev);
	begin(&o, RDMA_PS_TCP, SV_CM_CONNECTING);
	sv_cm_on_message(o.id, &rej);
	ev = told(&o);
	CHECK(ev && ev->event == RDMA_CM_EVENT_REJECTED && ev->status == 4);
	check_conn(&ev->param.conn, &rej, 148);
	end(&o, ev);
	rej.type = SV_CM_RTU;
	begin(&o, RDMA_PS_TCP, SV_CM_ACCEPTED);
	sv_cm_on_message(o.id, &rej);
	ev = told(&o);
	CHECK(ev && ev->event == RDMA_CM_EVENT_ESTABLISHED && !ev->param.conn.private_data);
	CHECK(!ev->param.conn.private_data_len);
	end(&o, ev);
}

/* An id for datagrams: who answers says where to send to, and that is all. */
static void answers_of_datagrams(int sock)
{
	struct sv_cm_msg rep = message(SV_CM_REP), rej = message(SV_CM_REJ);
	const struct rdma_ud_param *ud;
	struct rdma_cm_event *ev;
	union ibv_gid gid;
	struct one o;

	(void)sock;
	watch_lock();
	begin(&o, RDMA_PS_UDP, SV_CM_CONNECTING);
	sv_cm_on_message(o.id, &rep);
	CHECK(o.id->state == SV_CM_CONNECTED && o.id->deadline_ns == UINT64_MAX && !o.id->sock);
	CHECK(!o.id->remote_qpn);
	ev = told(&o);
	CHECK(ev && ev->event == RDMA_CM_EVENT_ESTABLISHED && !ev->status);
	ud = &ev->param.ud;
	CHECK(ud->private_data_len == 136 && is_data(ud->private_data, &rep, 136));
	CHECK(ud->qp_num == 0x123456 && ud->qkey == RDMA_UDP_QKEY);
	CHECK(ud->ah_attr.is_global == 1 && ud->ah_attr.port_num == 1 && ud->ah_attr.grh.hop_limit == 64);
	CHECK(!sv_query_gid(sv_cm.verbs[0], 1, 0, &gid) && !memcmp(&gid, &ud->ah_attr.grh.dgid, sizeof(gid)));
	end(&o, ev);
	begin(&o, RDMA_PS_UDP, SV_CM_CONNECTING);
	sv_cm_on_message(o.id, &rej);
	ev = told(&o);
	CHECK(ev && ev->event == RDMA_CM_EVENT_REJECTED && ev->status == 4);
	CHECK(ev->param.conn.private_data_len == 148 && is_data(ev->param.conn.private_data, &rej, 148));
	end(&o, ev);
}

static void requests(int sock)
{
	struct sv_cm_msg req = message(SV_CM_REQ);
	struct rdma_cm_event *ev;
	struct sv_id *id;
	struct one o;

	(void)sock;
	watch_lock();
	begin(&o, RDMA_PS_TCP, SV_CM_LISTENING);
	o.id->tos = 7;
	id = sv_cm_new_id(o.id);
	CHECK(id && id->id.channel == o.ch && id->id.context == &o && id->tos == 7);
	CHECK(id->id.ps == RDMA_PS_TCP && id->id.qp_type == IBV_QPT_RC && id->deadline_ns == UINT64_MAX);
	sv_cm_on_request(id, o.id, &req);
	CHECK(id->state == SV_CM_REQUESTED && id->listener == o.id && o.id->nrequests == 1);
	CHECK(id->remote_qpn == 0x123456 && id->remote_psn == 0x654321 && id->psn <= 0xffffff);
	CHECK(id->responder_resources == 9 && id->initiator_depth == 5);
	CHECK(id->retry_count == 3 && id->rnr_retry_count == 4 && id->peer_ack_timeout == 9);
	CHECK(!memcmp(&id->id.route.addr.src_storage, &req.dst, sizeof(req.dst)));
	CHECK(!memcmp(&id->id.route.addr.dst_storage, &req.src, sizeof(req.src)));
	CHECK(id->id.verbs == sv_cm.verbs[0] && id->id.pd == sv_cm.pd[0] && id->id.port_num == 1);
	ev = told(&o);
	CHECK(ev && ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->id == &id->id && !ev->status);
	CHECK(ev->listen_id == &o.id->id && o.id->events_got == 1 && !id->events_got);
	check_conn(&ev->param.conn, &req, 56);
	CHECK(!sv_destroy_id(&id->id) && !o.id->nrequests);
	end(&o, ev);
	begin(&o, RDMA_PS_UDP, SV_CM_LISTENING);
	id = sv_cm_new_id(o.id);
	CHECK(id && id->id.ps == RDMA_PS_UDP && id->id.qp_type == IBV_QPT_UD);
	sv_cm_on_request(id, o.id, &req);
	ev = told(&o);
	CHECK(ev && ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && ev->listen_id == &o.id->id);
	CHECK(ev->param.ud.private_data_len == 180 && is_data(ev->param.ud.private_data, &req, 180));
	CHECK(!ev->param.ud.qp_num && !ev->param.ud.qkey && !ev->param.ud.ah_attr.is_global);
	CHECK(!sv_destroy_id(&id->id));
	end(&o, ev);
}

static void test_messages(void **state)
{
	(void)state;
	kit_run(answers, requests);
	kit_run(answers_of_datagrams, kit_nothing);
}

/* ---- what comes over its socket ---- */

/* Its socket, which the test looks at instead of the control thread; lets go of the lock. */
static struct sv_watch *watch(struct one *o)
{
	int pair[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair));
	close(o->far);
	o->far = pair[1];
	CHECK(!sv_cm_watch(o->id, sv_fd_track(pair[0])));
	sv_watch_stop(&o->id->sock->watch);
	pthread_mutex_unlock(&sv_cm.lock);
	return &o->id->sock->watch;
}

/* One that says a lot is heard 16 times before the others have their turn. */
static void turns(int sock)
{
	struct sv_cm_msg msg = { .type = SV_CM_RTU, .abi = SV_ABI_VERSION };
	struct sv_watch *own;
	struct one o;
	int left = 0;

	(void)sock;
	watch_lock();
	begin(&o, RDMA_PS_TCP, SV_CM_CONNECTED);
	own = watch(&o);
	for (int i = 0; i < 20; i++) {
		CHECK(send(o.far, &msg, sizeof(msg), MSG_NOSIGNAL) == sizeof(msg));
		if (i == 9) { /* that few at once */
			own->ready(own, EPOLLIN);
			CHECK(recv(own->fd, &msg, sizeof(msg), MSG_DONTWAIT) == -1 && errno == EAGAIN);
		}
	}
	for (int i = 0; i < 10; i++)
		CHECK(send(o.far, &msg, sizeof(msg), MSG_NOSIGNAL) == sizeof(msg));
	own->ready(own, EPOLLIN);
	while (recv(own->fd, &msg, sizeof(msg), MSG_DONTWAIT) == sizeof(msg))
		left++;
	CHECK(left == 4);
	pthread_mutex_lock(&sv_cm.lock);
	CHECK(o.id->state == SV_CM_CONNECTED && !told(&o));
	end(&o, NULL);
}

static char folder[] = "/tmp/cm_state-XXXXXX";

/* Neither what is said nor the end is heard over a port that is cut, on whichever side. */
static void cut(int sock)
{
	static const struct {
		uint32_t src, dst;
		bool cut;
	} ways[] = { { 0, 0, false }, { 1, 0, true }, { 0, 1, true }, { 0, 2, false }, { 2, 0, false } };
	struct sv_cm_msg msg = { .type = SV_CM_DREQ, .abi = SV_ABI_VERSION };

	(void)sock;
	CHECK(!setenv("SOFTVERBS_DEVICES", "3", 1) && !setenv("SOFTVERBS_DOWN", folder, 1));
	watch_lock();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct rdma_cm_event *ev;
		struct sv_watch *own;
		struct one o;
		ssize_t n;

		begin(&o, RDMA_PS_TCP, SV_CM_CONNECTED);
		o.id->id.route.addr.src_sin = loopback(0);
		o.id->id.route.addr.src_sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ways[i].src);
		o.id->id.route.addr.dst_sin = loopback(0);
		o.id->id.route.addr.dst_sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ways[i].dst);
		own = watch(&o);
		pthread_mutex_lock(&sv_cm.lock);
		CHECK(sv_cm_is_cut(o.id) == ways[i].cut && !sv_cm_send(o.id, &msg));
		pthread_mutex_unlock(&sv_cm.lock);
		n = recv(o.far, &msg, sizeof(msg), MSG_DONTWAIT);
		CHECK(n == (ways[i].cut ? -1 : (ssize_t)sizeof(msg)));
		CHECK(!shutdown(o.far, SHUT_RDWR));
		own->ready(own, EPOLLIN);
		pthread_mutex_lock(&sv_cm.lock);
		CHECK(o.id->state == (ways[i].cut ? SV_CM_CONNECTED : SV_CM_DISCONNECTED));
		ev = told(&o);
		CHECK(!ev == ways[i].cut && (!ev || ev->event == RDMA_CM_EVENT_DISCONNECTED));
		end(&o, ev);
	}
}

static void test_sockets(void **state)
{
	char path[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/soft1", folder);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	kit_run(turns, cut);
	unlink(path);
	rmdir(folder);
}

/* ---- who leaves ---- */

/* Who is connected, or about to be, says so once, and is given two seconds for the answer. */
static void leave(enum sv_cm_state from)
{
	bool refused = from < SV_CM_RESPONDED || from == SV_CM_REQUESTED;
	bool says = !refused && from < SV_CM_DISCONNECTING;
	uint64_t earliest_ns = sv_now_ns() + 2000000000u;
	struct sv_cm_msg msg;
	struct one o;
	ssize_t n;

	begin(&o, RDMA_PS_TCP, from);
	pthread_mutex_unlock(&sv_cm.lock);
	errno = 0;
	CHECK(sv_disconnect(&o.id->id) == (refused ? -1 : 0) && errno == (refused ? EINVAL : 0));
	pthread_mutex_lock(&sv_cm.lock);
	CHECK(o.id->state == (says ? SV_CM_DISCONNECTING : from));
	if (says)
		CHECK(o.id->deadline_ns >= earliest_ns && o.id->deadline_ns <= sv_now_ns() + 2000000000u);
	else
		CHECK(o.id->deadline_ns > earliest_ns + HOUR_NS / 2);
	n = recv(o.far, &msg, sizeof(msg), MSG_DONTWAIT);
	CHECK(says ? n == sizeof(msg) && msg.type == SV_CM_DREQ : n == -1 && errno == EAGAIN);
	o.id->state = SV_CM_IDLE; /* nobody runs its timers */
	o.id->deadline_ns = UINT64_MAX;
	CHECK(!told(&o));
	end(&o, NULL);
}

static void leaves(int sock)
{
	(void)sock;
	watch_lock();
	for (int state = SV_CM_IDLE; state <= SV_CM_OVER; state++) {
		if (state != SV_CM_CONNECTING) /* the control thread dials for it */
			leave((enum sv_cm_state)state);
	}
}

static void test_leaving(void **state)
{
	(void)state;
	kit_run(leaves, kit_nothing);
}

/* ---- time ---- */

static void limits(int sock)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} all[] = { { "1", 1 }, { "600000", 600000 }, { "600001", 4000 }, { "0", 4000 }, { "soon", 4000 } };

	(void)sock;
	unsetenv("SOFTVERBS_CM_TIMEOUT_MS");
	CHECK(sv_cm_timeout_ms() == 4000);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		setenv("SOFTVERBS_CM_TIMEOUT_MS", all[i].text, 1);
		CHECK(sv_cm_timeout_ms() == all[i].ms);
	}
}

/* Timers run when the first of all is due, and say when the next is. */
static void timers(int sock)
{
	uint64_t now = sv_now_ns();
	struct rdma_cm_event *ev;
	struct one first, second;

	(void)sock;
	watch_lock();
	begin(&first, RDMA_PS_TCP, SV_CM_DISCONNECTED);
	pthread_mutex_unlock(&sv_cm.lock);
	begin(&second, RDMA_PS_TCP, SV_CM_CONNECTED);
	CHECK(atomic_load(&sv_cm.next_ns) == UINT64_MAX);
	first.id->deadline_ns = now + HOUR_NS;
	second.id->deadline_ns = now + 2 * HOUR_NS;
	sv_cm_due_at(now + HOUR_NS);
	sv_cm_due_at(now + 2 * HOUR_NS);
	CHECK(atomic_load(&sv_cm.next_ns) == now + HOUR_NS);
	first.id->deadline_ns = now;
	pthread_mutex_unlock(&sv_cm.lock);
	CHECK(sv_cm_run_timers() == now + HOUR_NS); /* nothing is due, it was said */
	pthread_mutex_lock(&sv_cm.lock);
	CHECK(first.id->state == SV_CM_DISCONNECTED);
	atomic_store(&sv_cm.next_ns, now);
	pthread_mutex_unlock(&sv_cm.lock);
	CHECK(sv_cm_run_timers() == now + 2 * HOUR_NS);
	CHECK(sv_cm_run_timers() == now + 2 * HOUR_NS && atomic_load(&sv_cm.next_ns) == now + 2 * HOUR_NS);
	pthread_mutex_lock(&sv_cm.lock);
	CHECK(first.id->state == SV_CM_OVER && second.id->state == SV_CM_CONNECTED);
	second.id->deadline_ns = UINT64_MAX;
	atomic_store(&sv_cm.next_ns, now);
	pthread_mutex_unlock(&sv_cm.lock);
	CHECK(sv_cm_run_timers() == UINT64_MAX && atomic_load(&sv_cm.next_ns) == UINT64_MAX);
	pthread_mutex_lock(&sv_cm.lock);
	ev = told(&first);
	CHECK(ev && ev->event == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	end(&first, ev);
	pthread_mutex_lock(&sv_cm.lock);
	CHECK(!told(&second));
	end(&second, NULL);
}

static void test_time(void **state)
{
	(void)state;
	kit_run(limits, timers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_leaving),
		cmocka_unit_test(test_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
