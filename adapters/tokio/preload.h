/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* preload.h - what the two ways into the preload share: its constructor and `kymo attach`. */
#ifndef KY_TOKIO_PRELOAD_H
#define KY_TOKIO_PRELOAD_H

#include <kymo/recorder.h>

/* Stays open until `kymo detach`: the ring must outlive every thread. */
extern struct kymo_recorder *ky_preload_recorder;

#endif
