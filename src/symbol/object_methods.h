/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* object_methods.h - which closure or asynchronous block a function was compiled for, by the tables
 * of trait objects that lead to it.
 *
 * A table of Rust's begins with the drop glue of its type, the type's size and its alignment; the
 * methods follow. Symbols of the older mangling name a generic function by its parameters alone,
 * "<F as app::Handler<T>>::call::{{closure}}", but drop glue by its type. So a boxed future whose
 * functions are all inlined still has the name of the program's own function.
 *
 * Memory:   16 bytes a method.
 * Threads:  owner.
 */
#ifndef KY_SYMBOL_OBJECT_METHODS_H
#define KY_SYMBOL_OBJECT_METHODS_H

#include <elf/elf_image.h>

struct ky_object_methods {
	struct ky_object_method *list; /* by function */
	uint32_t count, capacity;
};

/* Of a file with symbols; the file is untrusted. Returns 0, -ENOMEM. */
int ky_object_methods_read(struct ky_object_methods *out, struct ky_elf *elf);
void ky_object_methods_release(struct ky_object_methods *methods);

/* What stands for the generic name (demangled) of the function that begins at this address: types
 * of one shape with it, "A or B" where code is shared. NUL-terminated. Returns its bytes; 0: the
 * tables say no more than the name, or too many. */
size_t ky_object_method_name(const struct ky_object_methods *methods, const struct ky_elf *elf,
			     uint64_t function, const char *name, char *out, size_t capacity);

#endif
