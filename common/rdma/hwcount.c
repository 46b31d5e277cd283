/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/rdma/hwcount.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Names of several drivers: of mlx5, of rxe, of mlx4 (diag_counters), and those of the
 * InfiniBand standard.  Ends with a NULL name. */
static const struct hwcount_meaning meanings[] = {
	{ "out_of_sequence", "packets came out of order: some were lost on the way", true },
	{ "packet_seq_err", "the peer asked for packets again: some were lost on the way", true },
	{ "duplicate_request", "a request came again: its answer was lost or late", true },
	{ "local_ack_timeout_err", "no acknowledgement came in time: loss, or a peer that is gone", true },
	{ "req_transport_retries_exceeded", "a peer never acknowledged: it or the way to it is gone", true },
	{ "rnr_nak_retry_err", "a peer had no receive posted", true },
	{ "out_of_buffer", "a message met an empty receive queue here", true },
	{ "implied_nak_seq_err", "an answer skipped one that was due: loss", true },
	{ "req_remote_access_errors", "a peer refused an address, key or right", true },
	{ "resp_remote_access_errors", "a request here had a bad address, key or right", true },
	{ "req_remote_invalid_request", "a peer found a request malformed", true },
	{ "resp_cqe_error", "a response completed with an error", true },
	{ "req_cqe_error", "a request completed with an error", true },
	{ "resp_local_length_error", "a message was longer than its receive", true },
	{ "roce_adp_retrans", "adaptive retransmissions", true },
	{ "roce_slow_restart", "slow restarts after loss", true },
	{ "rx_icrc_encapsulated", "packets with a bad checksum", true },
	{ "np_cnp_sent", "congestion notices sent", false },
	{ "rp_cnp_handled", "congestion notices obeyed: senders slow down", true },
	{ "np_ecn_marked_roce_packets", "packets that a switch marked as congested", true },
	{ "out_of_seq_request", "packets came out of order: some were lost on the way", true },
	{ "rcvd_seq_err", "the peer asked for packets again: some were lost on the way", true },
	{ "rcvd_rnr_err", "a peer had no receive posted", true },
	{ "send_rnr_err", "a message met an empty receive queue here", true },
	{ "retry_exceeded_err", "a peer never acknowledged: it or the way to it is gone", true },
	{ "retry_rnr_exceeded_err", "a peer had no receive posted for too long", true },
	{ "completer_retry_err", "requests were sent again", true },
	{ "send_err", "packets could not be sent: is the interface up?", true },
	{ "link_downed", "the link went down", true },
	{ "link_error_recovery", "the link recovered from errors: look at the cable", true },
	{ "symbol_error", "errors on the line: look at the cable", true },
	{ "port_rcv_errors", "packets with errors: look at the cable", true },
	{ "port_xmit_discards", "packets dropped here: congestion, or the link is down", true },
	{ "port_xmit_wait", "waited for credits of the link: congestion", false },
	{ "port_rcv_constraint_errors", "packets of a wrong partition (P_Key)", true },
	{ "VL15_dropped", "management packets dropped", true },
	{ "local_link_integrity_errors", "errors on the line: look at the cable", true },
	{ "excessive_buffer_overrun_errors", "buffers overran: flow control fails", true },
	{ "sq_num_to", "no acknowledgement came in time: loss, or a peer that is gone", true },
	{ "sq_num_tree", "a peer never acknowledged: it or the way to it is gone", true },
	{ "sq_num_rnr", "a peer had no receive posted", true },
	{ "sq_num_rree", "a peer had no receive posted for too long", true },
	{ "sq_num_oos", "the peer asked for packets again: some were lost on the way", true },
	{ "sq_num_rae", "a peer refused an address, key or right", true },
	{ "sq_num_rire", "a peer found a request malformed", true },
	{ "sq_num_wrfe", "requests were flushed: their queue pair was in error", true },
	{ "rq_num_rnr", "a message met an empty receive queue here", true },
	{ "rq_num_oos", "packets came out of order: some were lost on the way", true },
	{ "rq_num_dup", "a request came again: its answer was lost or late", true },
	{ "rq_num_rae", "a request here had a bad address, key or right", true },
	{ "rq_num_lle", "a message was longer than its receive", true },
	{ "sq_num_lle", "an answer was longer than the memory for it", true },
	{ "rq_num_lqpoe", "the device's own trouble with a queue pair as a message came", true },
	{ "sq_num_lqpoe", "the device's own trouble with a queue pair as it sent", true },
	{ "rq_num_leeoe", "the device's own trouble with an end-to-end context (RD) as a message came", true },
	{ "sq_num_leeoe", "the device's own trouble with an end-to-end context (RD) as it sent", true },
	{ "rq_num_lpe", "a receive's memory had a bad key, bounds or domain", true },
	{ "sq_num_lpe", "a request's own memory had a bad key, bounds or domain", true },
	{ "rq_num_wrfe", "receives were flushed: their queue pair was in error", true },
	{ "sq_num_mwbe", "a memory window could not be bound", true },
	{ "sq_num_bre", "an answer came that fits no request", true },
	{ "rq_num_lae", "a request here could not get at its memory", true },
	{ "rq_num_rire", "a request here was malformed, or longer than its receive", true },
	{ "sq_num_roe", "a peer could not finish a request, for reasons of its own", true },
	{ "rq_num_rabrte", "a peer gave a message up (RD)", true },
	{ "sq_num_rabrte", "a peer gave a request up (RD)", true },
	{ "sq_num_ieecne", "an end-to-end context had a bad number (RD)", true },
	{ "sq_num_ieecse", "an end-to-end context had a bad state (RD)", true },
	{ "rq_num_mce", "a multicast datagram found no queue pair", true },
	{ "rq_num_rsync", "packets were asked for again from the place of a loss", true },
	{ "sq_num_rsync", "packets were sent again from the place of a loss", true },
	{ "rq_num_udsdprd", "a datagram met an empty receive queue (UD)", true },
	{ "rq_num_ucsdprd", "a message was lost, its connection being unreliable (UC)", true },
	{ "num_eqovf", "an event queue overflowed: events were lost", true },
	{ "num_baddb", "a doorbell was rung that belongs to no queue", true },
	{ "sq_num_ldb_drops", "doorbells were lost: requests wait for the next one", true },
	{ "num_cqovf", "a completion queue overflowed", true },
	{ "ack_deferred", "acknowledgements put off", false },
	{ "sent_pkts", "packets sent", false },
	{ "rcvd_pkts", "packets received", false },
	{ "rdma_sends", "messages sent", false },
	{ "rdma_recvs", "messages received", false },
	{ "rx_read_requests", "READs served", false },
	{ "rx_atomic_requests", "atomics served", false },
	{ "rx_write_requests", "WRITEs served", false },
	{ "lifespan", "milliseconds between two readings of these counters", false },
	{ NULL, NULL, false },
};

_Static_assert(sizeof meanings / sizeof meanings[0] <= HWCOUNT_MAX, "hwcount");

const struct hwcount_meaning *hwcount_find(const char *name)
{
	for (const struct hwcount_meaning *m = meanings; m->name; m++)
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

static void read_file(const char *folder, const char *name, uint64_t *value)
{
	unsigned long long number;
	char path[1024];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%llu", &number) == 1)
		*value = number;
	fclose(f);
}

static void read_folder(const char *folder, struct hwcount *counts)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const struct hwcount_meaning *m = hwcount_find(entry->d_name);
		if (m && m->trouble)
			read_file(folder, m->name, &counts->value[m - meanings]);
	}
	if (dir)
		closedir(dir);
}

void hwcount_read(const char *device, unsigned port, struct hwcount *counts)
{
	static const char *const parts[] = { "hw_counters", "diag_counters" };
	static const char *const port_parts[] = { "counters", "hw_counters" };
	char folder[512];

	memset(counts, 0, sizeof *counts);
	for (int i = 0; i < 2; i++) {
		snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/%s", device, parts[i]);
		read_folder(folder, counts);
	}
	for (int i = 0; i < 2; i++) {
		snprintf(folder, sizeof folder, "/sys/class/infiniband/%s/ports/%u/%s", device,
			 port, port_parts[i]);
		read_folder(folder, counts);
	}
}

const char *hwcount_changes(const char *device, unsigned port, const struct hwcount *before,
			    char *buf, size_t buf_bytes)
{
	struct hwcount now;
	size_t used = 0;

	buf[0] = '\0';
	hwcount_read(device, port, &now);
	for (unsigned i = 0; meanings[i].name && used < buf_bytes; i++) {
		if (now.value[i] <= before->value[i])
			continue;
		int n = snprintf(buf + used, buf_bytes - used, "%s%s +%llu (%s)", used ? ", " : "",
				 meanings[i].name,
				 (unsigned long long)(now.value[i] - before->value[i]),
				 meanings[i].meaning);
		used += n > 0 ? (size_t)n : 0;
	}
	return buf;
}
