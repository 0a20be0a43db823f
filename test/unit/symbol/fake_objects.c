/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program with tables of trait objects as rustc makes them, and calls of functions that end in a
 * jump, under symbols of the older mangling. Never run: the tests read the file. */

/* clang-format off */
#define SYMBOL_DROP_JOB \
	"_ZN4core3ptr105drop_in_place$LT$$LT$app..job$u20$as$u20$web..Handler$L" \
	"T$T$GT$$GT$..call..$u7b$$u7b$closure$u7d$$u7d$$GT$17h0000000000000001E"
#define SYMBOL_POLL_JOB \
	"_ZN43_$LT$F$u20$as$u20$web..Handler$LT$T$GT$$GT$4call28_$u7b$$u7b$clos" \
	"ure$u7d$$u7d$17h0000000000000002E"
#define SYMBOL_DROP_PING \
	"_ZN4core3ptr106drop_in_place$LT$$LT$app..ping$u20$as$u20$web..Handler$" \
	"LT$T$GT$$GT$..call..$u7b$$u7b$closure$u7d$$u7d$$GT$17h0000000000000003" \
	"E"
#define SYMBOL_DROP_LOGIN \
	"_ZN4core3ptr107drop_in_place$LT$$LT$app..login$u20$as$u20$web..Handler" \
	"$LT$T$GT$$GT$..call..$u7b$$u7b$closure$u7d$$u7d$$GT$17h000000000000000" \
	"4E"
#define SYMBOL_POLL_PING \
	"_ZN43_$LT$F$u20$as$u20$web..Handler$LT$T$GT$$GT$4call28_$u7b$$u7b$clos" \
	"ure$u7d$$u7d$17h0000000000000005E"
#define SYMBOL_POLL_LOGIN \
	"_ZN43_$LT$F$u20$as$u20$web..Handler$LT$T$GT$$GT$4call28_$u7b$$u7b$clos" \
	"ure$u7d$$u7d$17h0000000000000006E"
#define SYMBOL_RELEASE \
	"_ZN86_$LT$tokio..sync..semaphore..OwnedSemaphorePermit$u20$as$u20$core" \
	"..ops..drop..Drop$GT$4drop17h0000000000000009E"
#define SYMBOL_OTHER \
	"_ZN3app5other17h0000000000000007E"
/* clang-format on */

#define FUNCTION(id, symbol, number)                                                               \
	__attribute__((noinline, used)) void id(void) __asm__(symbol);                             \
	void id(void)                                                                              \
	{                                                                                          \
		__asm__ volatile("" : : "r"(number) : "memory");                                   \
	}

FUNCTION(drop_job, SYMBOL_DROP_JOB, 1)
FUNCTION(poll_job, SYMBOL_POLL_JOB, 2)
FUNCTION(drop_ping, SYMBOL_DROP_PING, 3)
FUNCTION(poll_ping, SYMBOL_POLL_PING, 4)
FUNCTION(poll_login, SYMBOL_POLL_LOGIN, 5)
FUNCTION(release, SYMBOL_RELEASE, 6)
FUNCTION(other, SYMBOL_OTHER, 7)

/* Drop glue that is the same code: the linker gives it both names. */
void drop_login(void) __asm__(SYMBOL_DROP_LOGIN) __attribute__((alias(SYMBOL_DROP_PING), used));

struct object {
	void (*drop)(void);
	unsigned long size, alignment;
	void (*poll)(void);
};

#define OBJECT(id, ...)                                                                            \
	extern const struct object id;                                                             \
	__attribute__((used)) const struct object id = {__VA_ARGS__}

OBJECT(object_job, drop_job, 16, 8, poll_job);
OBJECT(object_ping, drop_ping, 24, 8, poll_ping);
OBJECT(object_login, drop_ping, 24, 8, poll_login);

#if defined(__aarch64__)
#define CALL "bl"
#else
#define CALL "call"
#endif

#define CALLER(name, target)                                                                       \
	__asm__(".text\n.globl " name "\n.type " name ",@function\n" name ":\n\t" CALL             \
		" \"" target "\"\n.globl after_" name "\nafter_" name ":\n\tret\n.size " name      \
		",.-" name "\n")

CALLER("gives_back", SYMBOL_RELEASE);
CALLER("does_more", SYMBOL_OTHER);

int main(void)
{
	return object_job.size + object_ping.size + object_login.size == 0;
}
