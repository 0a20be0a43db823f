/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the process used and what limited it: rows of one shape, whatever event they are of. */
#include <read/load.h>

#define LIST_MAX (1u << 20) /* more than a day of readings; no writer makes so many */

static bool add(struct ky_load *load, const struct ky_trace_resource *row)
{
	struct ky_trace *trace = load->trace;
	uint32_t at;

	if (trace->resource_count >= ky_list_max(load, LIST_MAX))
		return ky_leave_out(load->private, KY_LEFT_RESOURCES);
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->resources, &trace->resource_capacity,
			    trace->resource_count + 1, sizeof(*row)))
		return false;
	/* Files may come in any order. */
	for (at = trace->resource_count++; at && trace->resources[at - 1].time_ns > row->time_ns;
	     at--)
		trace->resources[at] = trace->resources[at - 1];
	trace->resources[at] = *row;
	return true;
}

/* Values are fields from `from` on, in the order of the area's. */
static void take(struct ky_trace_resource *row, const struct ky_frame *frame, uint32_t from,
		 uint32_t count)
{
	for (uint32_t i = 0; i < KY_RESOURCE_VALUES; i++)
		row->values[i] = i < count ? ky_frame_number(frame, from + i, UINT64_MAX) :
					     UINT64_MAX;
}

static void take_listener(struct ky_trace_resource *row, struct ky_load *load,
			  const struct ky_frame *frame)
{
	static const struct {
		uint32_t value, field;
	} map[] = {
		{KY_LISTENER_COOKIE, KY_F_TCP_ACCEPT_QUEUE_socket_cookie},
		{KY_LISTENER_INODE, KY_F_TCP_ACCEPT_QUEUE_socket_inode},
		{KY_LISTENER_PORT, KY_F_TCP_ACCEPT_QUEUE_local_port},
		{KY_LISTENER_PENDING, KY_F_TCP_ACCEPT_QUEUE_pending_connections},
		{KY_LISTENER_LIMIT, KY_F_TCP_ACCEPT_QUEUE_backlog_limit},
		{KY_LISTENER_DROPS, KY_F_TCP_ACCEPT_QUEUE_dropped_connections},
	};

	take(row, frame, 0, 0);
	row->kind = KY_RESOURCE_LISTENER;
	row->scope = (uint8_t)ky_frame_number(frame, KY_F_TCP_ACCEPT_QUEUE_ip_version, 0);
	row->address = ky_load_text(load, frame, KY_F_TCP_ACCEPT_QUEUE_local_addr);
	for (uint32_t i = 0; i < sizeof(map) / sizeof(*map); i++)
		row->values[map[i].value] = ky_frame_number(frame, map[i].field, UINT64_MAX);
}

_Static_assert((int)KY_F_RESOURCE_USAGE_user_cpu_ns == (int)KY_USAGE_USER_NS &&
		       (int)KY_F_RESOURCE_USAGE_fd_limit == (int)KY_USAGE_FD_LIMIT &&
		       (int)KY_F_PARTIAL_USAGE_fd_limit == (int)KY_USAGE_FD_LIMIT,
	       "fields in the order of values");
_Static_assert((int)KY_F_CGROUP_USAGE_oom_kills == (int)KY_CGROUP_OOM_KILLS + 1 &&
		       (int)KY_F_PRESSURE_io_full_ns == (int)KY_PRESSURE_IO_FULL + 1,
	       "the same, after the scope");

bool ky_load_resource(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace_resource row = {.time_ns = frame->timestamp_ns, .address = KY_NONE};

	switch (frame->schema->event) {
	case KY_EV_RESOURCE_USAGE:
	case KY_EV_PARTIAL_USAGE:
		row.kind = KY_RESOURCE_USAGE;
		take(&row, frame, 0, KY_USAGE_FD_LIMIT + 1);
		break;
	case KY_EV_CGROUP_USAGE:
		row.kind = KY_RESOURCE_CGROUP;
		row.scope = (uint8_t)ky_frame_number(frame, KY_F_CGROUP_USAGE_level, 0);
		take(&row, frame, 1, KY_CGROUP_OOM_KILLS + 1);
		break;
	case KY_EV_PRESSURE:
		row.kind = KY_RESOURCE_PRESSURE;
		row.scope = ky_frame_number(frame, KY_F_PRESSURE_scope, 0) != 0;
		take(&row, frame, 1, KY_PRESSURE_IO_FULL + 1);
		break;
	case KY_EV_TCP_ACCEPT_QUEUE:
		take_listener(&row, load, frame);
		break;
	case KY_EV_DRIVER_TURN:
		return ky_load_turn(load, frame);
	case KY_EV_WORKER_NOTIFY:
		return ky_load_notify(load, frame);
	case KY_EV_FAILED_CALLS:
		return ky_load_failed_calls(load, frame);
	case KY_EV_SOCKET_WAIT:
		return ky_load_socket_wait(load, frame);
	case KY_EV_CONN_WAIT:
		return ky_load_request_wait(load, frame);
	case KY_EV_CONN_UNSEEN:
		return ky_load_request_unseen(load, frame);
	case KY_EV_SPAWN_WINDOW:
		return ky_load_spawn_window(load, frame);
	case KY_EV_PROCESS_STATE:
		return ky_load_process_state(load, frame);
	case KY_EV_THROTTLED:
		return ky_load_throttled(load, frame);
	case KY_EV_THREAD_USAGE:
		return ky_load_thread_use(load, frame);
	case KY_EV_RUNTIME_METRICS:
		return ky_load_runtime_metrics(load, frame);
	case KY_EV_QUEUE_SAMPLE:
		return ky_load_queue_sample(load, frame);
	case KY_EV_COUNTER:
		return ky_load_counter(load, frame);
	case KY_EV_ANNOTATION:
		return ky_load_annotation(load, frame);
	case KY_EV_LISTEN_DROPS:
		row.kind = KY_RESOURCE_DROPS;
		take(&row, frame, 0, 2);
		break;
	default:
		return ky_load_retained(load, frame);
	}
	return add(load, &row);
}
