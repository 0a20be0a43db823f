/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program shaped like rustc's output: task tables in read-only data, their functions under
 * Tokio's
 * symbol names, drop glue over the futures' types below them. Never run: the tests read the file.
 * */

#define FUNCTION(id, symbol)                                                                       \
	__attribute__((noinline, used)) void id(void) __asm__(symbol);                             \
	__attribute__((noinline, used)) void id(void)

/* Something to keep a call from becoming a jump, and equal functions from being merged. */
#define BODY(n) __asm__ volatile("" : : "r"(n) : "memory")

struct table {
	void (*words[7])(void);
	unsigned long offsets[3];
};

/* clang-format off */
#define SYMBOL_STAGE_RENDER \
	"_ZN4core3ptr105drop_in_place$LT$tokio..runtime..task..core..Stage$LT$report..r" \
	"ender..$u7b$$u7b$closure$u7d$$u7d$$GT$$GT$17h0000000000000001E"
#define SYMBOL_CELL_RENDER \
	"_ZN4core3ptr186drop_in_place$LT$tokio..runtime..task..core..Cell$LT$report..re" \
	"nder..$u7b$$u7b$closure$u7d$$u7d$$C$alloc..sync..Arc$LT$tokio..runtime..schedu" \
	"ler..multi_thread..handle..Handle$GT$$GT$$GT$17h0000000000000002E"
#define SYMBOL_BOX_RENDER \
	"_ZN4core3ptr211drop_in_place$LT$alloc..boxed..Box$LT$tokio..runtime..task..cor" \
	"e..Cell$LT$report..render..$u7b$$u7b$closure$u7d$$u7d$$C$alloc..sync..Arc$LT$t" \
	"okio..runtime..scheduler..multi_thread..handle..Handle$GT$$GT$$GT$$GT$17h00000" \
	"00000000003E"
#define SYMBOL_HARNESS_RENDER \
	"_ZN5tokio7runtime4task7harness20Harness$LT$T$C$S$GT$4poll17h0000000000000004E"
#define SYMBOL_POLL_RENDER "_ZN5tokio7runtime4task3raw4poll17h0000000000000005E"
#define SYMBOL_DEALLOC_RENDER "_ZN5tokio7runtime4task3raw7dealloc17h0000000000000006E"
#define SYMBOL_READ_RENDER "_ZN5tokio7runtime4task3raw15try_read_output17h0000000000000007E"
#define SYMBOL_SHUTDOWN_RENDER "_ZN5tokio7runtime4task3raw8shutdown17h0000000000000008E"
#define SYMBOL_STAGE_FETCH \
	"_ZN4core3ptr101drop_in_place$LT$tokio..runtime..task..core..Stage$LT$net..fetc" \
	"h..$u7b$$u7b$closure$u7d$$u7d$$GT$$GT$17h0000000000000009E"
#define SYMBOL_POLL_FETCH "_ZN5tokio7runtime4task3raw4poll17h000000000000000aE"
#define SYMBOL_POLL_STORE "_ZN5tokio7runtime4task3raw4poll17h000000000000000bE"
#define SYMBOL_DEALLOC_FOLDED "_ZN5tokio7runtime4task3raw7dealloc17h000000000000000cE"
#define SYMBOL_STAGE_TWIN \
	"_ZN4core3ptr71drop_in_place$LT$tokio..runtime..task..core..Stage$LT$net..twin$" \
	"GT$$GT$17h000000000000000dE"
#define SYMBOL_POLL_TWIN "_ZN5tokio7runtime4task3raw4poll17h000000000000000eE"
#define SYMBOL_DEALLOC_TWIN "_ZN5tokio7runtime4task3raw7dealloc17h000000000000000fE"
#define SYMBOL_POLL_V0 \
	"_RINvNtNtNtCs5678_5tokio7runtime4task3raw4pollNCNvCs1234_6worker3run0NtCs9_3ap" \
	"p1SECsabc_3app"
#define SYMBOL_POLL_MUTE "_ZN5tokio7runtime4task3raw4poll17h0000000000000010E"
#define SYMBOL_HELPER "_ZN3app6helper17h00000000000000ffE"
#define SYMBOL_SCHEDULE "_ZN5tokio7runtime4task3raw8schedule17h0000000000000011E"
#define SYMBOL_OTHER "_ZN5tokio7runtime4task3raw21drop_join_handle_slow17h0000000000000012E"
#define SYMBOL_STAGE_STORE \
	"_ZN4core3ptr125drop_in_place$LT$tokio..runtime..task..core..Stage$LT$net..stor" \
	"e$LT$$LP$u8$C$u16$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$$GT$17h0000000000000" \
	"013E"
#define SYMBOL_STAGE_FIRST \
	"_ZN4core3ptr74drop_in_place$LT$tokio..runtime..task..core..Stage$LT$ba" \
	"tch..first$GT$$GT$17h0000000000000020E"
#define SYMBOL_CELL_FIRST \
	"_ZN4core3ptr180drop_in_place$LT$alloc..boxed..Box$LT$tokio..runtime..t" \
	"ask..core..Cell$LT$batch..first$C$alloc..sync..Arc$LT$tokio..runtime.." \
	"scheduler..multi_thread..handle..Handle$GT$$GT$$GT$$GT$17h000000000000" \
	"0021E"
#define SYMBOL_CELL_SECOND \
	"_ZN4core3ptr181drop_in_place$LT$alloc..boxed..Box$LT$tokio..runtime..t" \
	"ask..core..Cell$LT$batch..second$C$alloc..sync..Arc$LT$tokio..runtime." \
	".scheduler..multi_thread..handle..Handle$GT$$GT$$GT$$GT$17h00000000000" \
	"00022E"
#define SYMBOL_STAGE_LOST \
	"_ZN4core3ptr73drop_in_place$LT$tokio..runtime..task..core..Stage$LT$ba" \
	"tch..lost$GT$$GT$17h0000000000000023E"
#define SYMBOL_POLL_FIRST \
	"_ZN5tokio7runtime4task3raw4poll17h0000000000000030E"
#define SYMBOL_POLL_SECOND \
	"_ZN5tokio7runtime4task3raw4poll17h0000000000000031E"
#define SYMBOL_POLL_LOST_A \
	"_ZN5tokio7runtime4task3raw4poll17h0000000000000032E"
#define SYMBOL_POLL_LOST_B \
	"_ZN5tokio7runtime4task3raw4poll17h0000000000000033E"
#define SYMBOL_DEALLOC_FIRST \
	"_ZN5tokio7runtime4task3raw7dealloc17h0000000000000034E"
#define SYMBOL_DEALLOC_SECOND \
	"_ZN5tokio7runtime4task3raw7dealloc17h0000000000000035E"
#define SYMBOL_DEALLOC_LOST_A \
	"_ZN5tokio7runtime4task3raw7dealloc17h0000000000000036E"
#define SYMBOL_DEALLOC_LOST_B \
	"_ZN5tokio7runtime4task3raw7dealloc17h0000000000000037E"
#define SYMBOL_SHUTDOWN_FIRST \
	"_ZN5tokio7runtime4task3raw8shutdown17h0000000000000038E"
#define SYMBOL_SHUTDOWN_SECOND \
	"_ZN5tokio7runtime4task3raw8shutdown17h0000000000000039E"
/* clang-format on */

FUNCTION(stage_render, SYMBOL_STAGE_RENDER)
{
	BODY(0);
}

FUNCTION(cell_render, SYMBOL_CELL_RENDER)
{
	stage_render();
	BODY(1);
}

FUNCTION(box_render, SYMBOL_BOX_RENDER)
{
	cell_render();
	BODY(2);
}

FUNCTION(harness_render, SYMBOL_HARNESS_RENDER)
{
	stage_render();
	BODY(3);
}

FUNCTION(helper, SYMBOL_HELPER)
{
	BODY(4);
}

FUNCTION(poll_render, SYMBOL_POLL_RENDER)
{
	helper();
	harness_render();
	BODY(5);
}

FUNCTION(dealloc_render, SYMBOL_DEALLOC_RENDER)
{
	box_render();
	BODY(6);
}

FUNCTION(read_render, SYMBOL_READ_RENDER)
{
	stage_render();
	BODY(7);
}

FUNCTION(shutdown_render, SYMBOL_SHUTDOWN_RENDER)
{
	harness_render();
	BODY(8);
}

FUNCTION(stage_fetch, SYMBOL_STAGE_FETCH)
{
	BODY(9);
}

FUNCTION(poll_fetch, SYMBOL_POLL_FETCH)
{
	stage_fetch();
	BODY(10);
}

FUNCTION(poll_store, SYMBOL_POLL_STORE)
{
	stage_fetch();
	BODY(11);
}

FUNCTION(dealloc_folded, SYMBOL_DEALLOC_FOLDED)
{
	stage_fetch();
	BODY(12);
}

FUNCTION(stage_twin, SYMBOL_STAGE_TWIN)
{
	BODY(13);
}

FUNCTION(poll_twin, SYMBOL_POLL_TWIN)
{
	stage_twin();
	BODY(14);
}

FUNCTION(dealloc_twin, SYMBOL_DEALLOC_TWIN)
{
	stage_twin();
	BODY(15);
}

FUNCTION(poll_v0, SYMBOL_POLL_V0)
{
	BODY(16);
}

FUNCTION(poll_mute, SYMBOL_POLL_MUTE)
{
	helper();
	BODY(17);
}

FUNCTION(schedule, SYMBOL_SCHEDULE)
{
	BODY(18);
}

FUNCTION(other, SYMBOL_OTHER)
{
	BODY(19);
}

/* LLVM merged what the two types have in common into the first one's; only what frees the cell is
 * each one's own. */
FUNCTION(stage_first, SYMBOL_STAGE_FIRST)
{
	BODY(30);
}

FUNCTION(cell_first, SYMBOL_CELL_FIRST)
{
	stage_first();
	BODY(31);
}

FUNCTION(cell_second, SYMBOL_CELL_SECOND)
{
	stage_first();
	BODY(32);
}

FUNCTION(poll_first, SYMBOL_POLL_FIRST)
{
	stage_first();
	BODY(33);
}

FUNCTION(dealloc_first, SYMBOL_DEALLOC_FIRST)
{
	cell_first();
	BODY(34);
}

FUNCTION(shutdown_first, SYMBOL_SHUTDOWN_FIRST)
{
	stage_first();
	BODY(35);
}

FUNCTION(poll_second, SYMBOL_POLL_SECOND)
{
	stage_first();
	BODY(36);
}

FUNCTION(dealloc_second, SYMBOL_DEALLOC_SECOND)
{
	cell_second();
	BODY(37);
}

FUNCTION(shutdown_second, SYMBOL_SHUTDOWN_SECOND)
{
	stage_first();
	BODY(38);
}

/* And here everything: one of the two types is nowhere named. */
FUNCTION(stage_lost, SYMBOL_STAGE_LOST)
{
	BODY(39);
}

FUNCTION(poll_lost_a, SYMBOL_POLL_LOST_A)
{
	stage_lost();
	BODY(40);
}

FUNCTION(dealloc_lost_a, SYMBOL_DEALLOC_LOST_A)
{
	stage_lost();
	BODY(41);
}

FUNCTION(poll_lost_b, SYMBOL_POLL_LOST_B)
{
	stage_lost();
	BODY(42);
}

FUNCTION(dealloc_lost_b, SYMBOL_DEALLOC_LOST_B)
{
	stage_lost();
	BODY(43);
}

/* What a linker's folding leaves: two symbols, one address. */
__attribute__((alias(SYMBOL_STAGE_FETCH), used)) void stage_store(void) __asm__(SYMBOL_STAGE_STORE);

#define TABLE(id, poll, dealloc, read, shutdown)                                                   \
	__attribute__((used)) extern const struct table id;                                        \
	const struct table id = {{poll, schedule, dealloc, read, other, other, shutdown},          \
				 {80, 32, 40}}

TABLE(table_render, poll_render, dealloc_render, read_render, shutdown_render);
TABLE(table_fetch, poll_fetch, dealloc_folded, other, other);
TABLE(table_store, poll_store, dealloc_folded, other, other);
TABLE(table_twin_a, poll_twin, dealloc_twin, other, other);
TABLE(table_twin_b, poll_twin, dealloc_twin, other, other);
TABLE(table_first, poll_first, dealloc_first, stage_first, shutdown_first);
TABLE(table_second, poll_second, dealloc_second, stage_first, shutdown_second);
TABLE(table_lost_a, poll_lost_a, dealloc_lost_a, other, other);
TABLE(table_lost_b, poll_lost_b, dealloc_lost_b, other, other);
TABLE(table_v0, poll_v0, other, other, other);
TABLE(table_mute, poll_mute, other, other, other);

int main(void)
{
	return 0;
}
