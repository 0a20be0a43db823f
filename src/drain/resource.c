/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What was seen of the process's resources: rows of the ring's resource area become events, and
 * what could not be seen becomes a sentence of the metadata. */
#include <drain/drain_state.h>

#include <arpa/inet.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define DIAL9_VALUES (KY_USAGE_INVOLUNTARY + 1u)
#define ERRNO_MAX 4095u

/* ---- reading ---- */

int ky_drain_read_resources(struct ky_drain *drain)
{
	const uint8_t *area = ky_ring_view_resources(&drain->ring);
	struct ky_side_state *side = &drain->side;
	struct ky_resource_about about;
	uint64_t from_ns = drain->merged_ns;
	int err = 0;

	/* A stream tells nothing of while it was left, as of other records. */
	if (drain->back_ticks && ky_timeline_ns(&drain->timeline, drain->back_ticks) > from_ns)
		from_ns = ky_timeline_ns(&drain->timeline, drain->back_ticks);
	if (!area)
		return 0;
	ky_ring_view_resource_about(area, &about);
	if (about.hand < side->resource_next) /* nobody takes rows back */
		return 0;
	if (about.hand - side->resource_next > KY_RESOURCE_SLOTS)
		side->resource_next = about.hand - KY_RESOURCE_SLOTS;
	for (; side->resource_next < about.hand && err != -ENOMEM; side->resource_next++) {
		struct ky_resource_row row;

		if (!ky_ring_view_resource(area, side->resource_next, &row))
			continue;
		if (!drain->is_cut && row.monotonic_ns < from_ns)
			continue;
		err = ky_drain_note_resource(drain, &row);
	}
	return err == -ENOMEM ? err : 0;
}

/* ---- writing ---- */

static void opt(struct ky_drain *drain, const struct ky_resource_row *row, uint32_t value)
{
	ky_trc_enc_opt_varint(&drain->enc, ky_resource_has(row, value), row->values[value]);
}

static void write_usage(struct ky_drain *drain, const struct ky_resource_row *row, uint64_t ns)
{
	const uint32_t all = (1u << DIAL9_VALUES) - 1;
	bool is_whole = (row->present & all) == all;

	ky_trc_enc_event(&drain->enc, is_whole ? KY_EV_RESOURCE_USAGE : KY_EV_PARTIAL_USAGE, ns);
	for (uint32_t i = 0; i < DIAL9_VALUES; i++) {
		if (is_whole)
			ky_trc_enc_varint(&drain->enc, row->values[i]);
		else
			opt(drain, row, i);
	}
	for (uint32_t i = DIAL9_VALUES; i < KY_RESOURCE_VALUES; i++)
		opt(drain, row, i);
}

static void write_group(struct ky_drain *drain, const struct ky_resource_row *row, uint64_t ns)
{
	ky_trc_enc_event(&drain->enc, KY_EV_CGROUP_USAGE, ns);
	ky_trc_enc_u8(&drain->enc, row->scope);
	for (uint32_t i = 0; i <= KY_CGROUP_OOM_KILLS; i++)
		opt(drain, row, i);
}

static void write_pressure(struct ky_drain *drain, const struct ky_resource_row *row, uint64_t ns)
{
	ky_trc_enc_event(&drain->enc, KY_EV_PRESSURE, ns);
	ky_trc_enc_u8(&drain->enc, row->scope);
	for (uint32_t i = 0; i <= KY_PRESSURE_IO_FULL; i++)
		opt(drain, row, i);
}

static uint32_t saturate(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static void write_listener(struct ky_drain *drain, const struct ky_resource_row *row, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	char address[INET6_ADDRSTRLEN] = "";

	if (!inet_ntop(row->scope == 6 ? AF_INET6 : AF_INET, &row->values[KY_LISTENER_ADDRESS],
		       address, sizeof(address)))
		address[0] = 0;
	ky_trc_enc_event(enc, KY_EV_TCP_ACCEPT_QUEUE, ns);
	ky_trc_enc_varint(enc, row->values[KY_LISTENER_COOKIE]);
	ky_trc_enc_varint(enc, row->values[KY_LISTENER_INODE]);
	ky_trc_enc_u8(enc, row->scope == 6 ? 6 : 4);
	ky_trc_enc_text(enc, address, strlen(address));
	ky_trc_enc_u16(enc, (uint16_t)row->values[KY_LISTENER_PORT]);
	ky_trc_enc_u32(enc, saturate(row->values[KY_LISTENER_PENDING]));
	ky_trc_enc_u32(enc, saturate(row->values[KY_LISTENER_LIMIT]));
	opt(drain, row, KY_LISTENER_DROPS);
}

static void write_drops(struct ky_drain *drain, const struct ky_resource_row *row, uint64_t ns)
{
	ky_trc_enc_event(&drain->enc, KY_EV_LISTEN_DROPS, ns);
	ky_trc_enc_varint(&drain->enc, row->values[0]);
	ky_trc_enc_varint(&drain->enc, row->values[1]);
}

void ky_drain_write_resource(struct ky_drain *drain, const struct ky_resource_row *row, uint64_t ns)
{
	switch (row->kind) {
	case KY_RESOURCE_USAGE:
		write_usage(drain, row, ns);
		break;
	case KY_RESOURCE_CGROUP:
		write_group(drain, row, ns);
		break;
	case KY_RESOURCE_PRESSURE:
		write_pressure(drain, row, ns);
		break;
	case KY_RESOURCE_LISTENER:
		write_listener(drain, row, ns);
		break;
	case KY_RESOURCE_DROPS:
		write_drops(drain, row, ns);
		break;
	default: /* of a newer writer, or nonsense */
		break;
	}
}

/* ---- what is missing ---- */

static const char *why_text(uint32_t why)
{
	switch (why) {
	case KY_WHY_OTHER_NAMESPACE:
		return "the process lives in another pid namespace";
	case KY_WHY_TOO_MANY:
		return "too many to count in every look";
	case KY_WHY_NO_CONTROLLER:
		return "no cgroup counts it";
	case KY_WHY_BEING_SEARCHED:
		return "still being searched among the process's descriptors";
	case ENOENT:
		return "not there";
	case EACCES:
	case EPERM:
		return "not permitted";
	case ENODATA:
		return "not told by the kernel";
	default:
		return why <= ERRNO_MAX ? kymo_error_text(-(int)why) : "unknown";
	}
}

const char *ky_drain_resources_missing(const struct ky_resource_about *about, char *out,
				       size_t capacity)
{
	static const char *const parts[KY_PART_COUNT] = {
		[KY_PART_CPU] = "CPU time and faults",
		[KY_PART_RSS] = "resident set",
		[KY_PART_MAX_RSS] = "peak resident set",
		[KY_PART_IO] = "block input and output",
		[KY_PART_SWITCHES] = "context switches",
		[KY_PART_FDS] = "open descriptors",
		[KY_PART_FD_LIMIT] = "limit of descriptors",
		[KY_PART_CGROUP_CPU] = "cgroup CPU",
		[KY_PART_CGROUP_MEMORY] = "cgroup memory",
		[KY_PART_PRESSURE] = "pressure of the machine",
		[KY_PART_CGROUP_PRESSURE] = "pressure of the cgroup",
		[KY_PART_LISTENERS] = "accept queues",
		[KY_PART_DROPS] = "dropped connections",
	};
	size_t used = 0;

	out[0] = 0;
	for (uint32_t i = 0; i < KY_PART_COUNT && used < capacity; i++)
		if (about->missing[i])
			used += (size_t)snprintf(out + used, capacity - used, "%s%s: %s",
						 used ? "; " : "", parts[i],
						 why_text(about->missing[i]));
	return out;
}
