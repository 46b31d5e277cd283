/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/host/device_event.h"

static const struct {
	enum ibv_event_type type;
	enum event_action action;
	const char *words;
} events[] = {
	{ IBV_EVENT_QP_FATAL, EVENT_CONN, "the device found an error of the queue pair" },
	{ IBV_EVENT_QP_REQ_ERR, EVENT_CONN, "the client sent a malformed request" },
	{ IBV_EVENT_QP_ACCESS_ERR, EVENT_CONN, "the client used an address, key or right that it has not" },
	{ IBV_EVENT_PATH_MIG_ERR, EVENT_CONN, "the path could not be changed" },
	{ IBV_EVENT_QP_LAST_WQE_REACHED, EVENT_DRAIN, "the queue pair is drained" },
	{ IBV_EVENT_COMM_EST, EVENT_PASS, "the first packet came before the connection was up" },
	{ IBV_EVENT_SQ_DRAINED, EVENT_PASS, "the send queue is drained" },
	{ IBV_EVENT_PATH_MIG, EVENT_TELL, "the path was changed" },
	{ IBV_EVENT_SRQ_LIMIT_REACHED, EVENT_TELL, "a receive queue ran low: workers are too slow" },
	{ IBV_EVENT_PORT_ACTIVE, EVENT_TELL, "the port is up; clients that lost it connect again" },
	{ IBV_EVENT_PORT_ERR, EVENT_TELL,
	  "the port is down: clients lose their connections until it is up (cable, switch, 'ip link')" },
	{ IBV_EVENT_GID_CHANGE, EVENT_TELL,
	  "an address of the interface came or went: clients of one that went can't connect" },
	{ IBV_EVENT_LID_CHANGE, EVENT_TELL, "the subnet manager gave the port another LID" },
	{ IBV_EVENT_PKEY_CHANGE, EVENT_TELL, "the partitions (P_Keys) of the port changed" },
	{ IBV_EVENT_SM_CHANGE, EVENT_TELL, "there is another subnet manager" },
	{ IBV_EVENT_CLIENT_REREGISTER, EVENT_TELL, "the subnet manager was started again" },
	{ IBV_EVENT_DEVICE_FATAL, EVENT_STOP, "the device failed" },
	{ IBV_EVENT_CQ_ERR, EVENT_STOP, "a completion queue failed: it ran over, or the device did" },
	{ IBV_EVENT_SRQ_ERR, EVENT_STOP, "a receive queue failed" },
	{ IBV_EVENT_WQ_FATAL, EVENT_STOP, "a work queue failed" },
};

enum event_action event_judge(enum ibv_event_type type, const char **words)
{
	for (unsigned i = 0; i < sizeof events / sizeof events[0]; i++) {
		if (events[i].type == type) {
			*words = events[i].words;
			return events[i].action;
		}
	}
	*words = "an event that kvd does not know";
	return EVENT_TELL;
}
