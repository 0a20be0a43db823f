// SPDX-License-Identifier: Apache-2.0 OR MIT
/// Callgrind begins, or ceases, to count this thread's instructions (callgrind.h, its client
/// request TOGGLE_COLLECT); nothing outside of callgrind.
#[cfg(target_arch = "x86_64")]
fn toggle_counting() {
    let request = [0x4354_0002u64, 0, 0, 0, 0, 0];
    // SAFETY: the rotations add up to a turn of 128 bits and the exchange does nothing, so only
    // what is named here changes; callgrind reads the six words.
    unsafe {
        std::arch::asm!("rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") request.as_ptr(), inout("rdx") 0u64 => _, options(nostack));
    }
}
