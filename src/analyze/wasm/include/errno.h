/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* errno.h - of the WebAssembly build: the numbers Linux uses, so that errors have the same ones. */
#ifndef KY_WASM_ERRNO_H
#define KY_WASM_ERRNO_H

#define EIO 5
#define E2BIG 7
#define ENOMEM 12
#define EINVAL 22

#endif
