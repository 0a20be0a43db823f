/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Roots, the futures of block_on: their polls by what was seen of them, as bounds. */
#include <drain/convert_stage.h>

#include <drain/task_ready.h>

_Static_assert(KY_TASK_ID_ROOT == KYMO_ROOT_BIT &&
		       KY_TASK_ID_ROOT_OF_RUNTIME == KYMO_ROOT_OF_RUNTIME,
	       "readers know it by these bits");

static struct ky_drain_root *take(struct ky_convert *convert, uint64_t id)
{
	struct ky_drain_root *root = ky_root_list_take(&convert->roots, id);

	if (!root)
		convert->is_out_of_memory = true;
	return root;
}

void ky_convert_root_woken(struct ky_convert *convert, uint64_t id, uint64_t ns)
{
	struct ky_drain_root *root = take(convert, id);

	if (!root)
		return;
	root->last_ns = ns;
	if (!root->woken_ns)
		root->woken_ns = ns;
}

void ky_convert_root_begin(struct ky_convert *convert, struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns)
{
	struct ky_drain_root *root = take(convert, rec->a >> KYMO_NAME_BITS);
	uint64_t end_ns; /* of its wait: not after that */

	if (!root)
		return;
	root->last_ns = ns;
	if (root->is_open && rec->arg == KYMO_ROOT_CLONED) {
		root->end_min_ns = ns;
		return;
	}
	root->begin_min_ns = rec->arg == KYMO_ROOT_WOKEN ? ns : thread->boundary_ns;
	root->begin_max_ns = root->end_min_ns = ns;
	end_ns = root->begin_min_ns > root->task.last_poll_ns ? root->begin_min_ns : ns;
	if (root->waits && !root->is_open)
		ky_convert_task_waited(convert, &root->task, root->id, end_ns, ns);
	root->polled_woken_ns = root->woken_ns;
	root->woken_ns = 0;
	root->is_open = true;
	thread->root_task = root->id;
	if (rec->arg == KYMO_ROOT_WOKEN)
		thread->root_begin_ns = ns;
}

static void write_poll(struct ky_convert *convert, const struct ky_dthread *thread,
		       const struct ky_drain_root *root, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t name = ky_name_pool(&convert->common->names, &convert->chunk, root->task.name);

	if (convert->chunk.is_muted)
		return;
	ky_trc_enc_event(enc, KY_EV_ROOT_POLL, ns);
	ky_trc_enc_varint(enc, root->id);
	ky_trc_enc_u32(enc, name);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, root->begin_min_ns);
	ky_trc_enc_varint(enc, root->begin_max_ns);
	ky_trc_enc_varint(enc, root->end_min_ns);
	ky_trc_enc_varint(enc, root->polled_woken_ns);
	ky_trc_enc_u8(enc, root->waits);
}

void ky_convert_root_end(struct ky_convert *convert, struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns)
{
	struct ky_drain_root *root = take(convert, rec->a >> KYMO_NAME_BITS);

	thread->boundary_ns = ns;
	thread->root_begin_ns = ns;
	if (!root)
		return;
	root->task.name = (uint32_t)rec->a & KY_NAME_MASK;
	root->waits = (rec->arg & KYMO_ROOT_WAITS) != 0;
	if (root->is_open)
		write_poll(convert, thread, root, ns);
	ky_convert_points(convert, &root->task, rec->arg >> KYMO_POLL_POINTS_SHIFT);
	root->task.last_poll_ns = ns;
	root->is_open = false;
	root->last_ns = ns;
}
