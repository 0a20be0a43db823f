/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo.h - everything public. */
#ifndef KYMO_KYMO_H
#define KYMO_KYMO_H

#include <kymo/alloc.h>
#include <kymo/base.h>
#include <kymo/conn.h>
#include <kymo/counter.h>
#include <kymo/dump.h>
#include <kymo/emit.h>
#include <kymo/event.h>
#include <kymo/fatal.h>
#include <kymo/poll_cost.h>
#include <kymo/reader.h>
#include <kymo/recorder.h>
#include <kymo/runtime.h>
#include <kymo/schema.h>
#include <kymo/source.h>
#include <kymo/span.h>
#include <kymo/stack.h>
#include <kymo/tokio.h>
#include <kymo/usdt.h>

#endif
