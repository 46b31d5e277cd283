/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kvd._fast -- the calls that cost ctypes more than they cost libkvd: a GET of a short value,
 * and many of them.  The module works without it.
 *
 * CPython's limited API, so that one build is for all versions from 3.10 on.  It links nothing:
 * kvd._lib, which has found libkvd, names the functions by set_up().
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <kvd.h>
#include <stdint.h>
#include <stdlib.h>

static int (*get_fn)(kvd_session *session, const void *key, size_t key_bytes, void *value,
		     size_t value_bytes_max, size_t *value_bytes, uint64_t *version);
static int (*mget_fn)(kvd_session *session, struct kvd_item *items, size_t count);

/* set_up(address of kvd_get, of kvd_mget, length of a struct kvd_item) */
static PyObject *set_up(PyObject *self, PyObject *args)
{
	unsigned long long get, mget;
	Py_ssize_t item_bytes;

	(void)self;
	if (!PyArg_ParseTuple(args, "KKn", &get, &mget, &item_bytes))
		return NULL;
	if (item_bytes != (Py_ssize_t)sizeof(struct kvd_item)) {
		PyErr_SetString(PyExc_ImportError, "kvd._fast was built for another libkvd");
		return NULL;
	}
	*(void **)&get_fn = (void *)(uintptr_t)get;
	*(void **)&mget_fn = (void *)(uintptr_t)mget;
	Py_RETURN_NONE;
}

/* The bytes of a str or bytes object, which lives longer; -1 with an exception. */
static int key_of(PyObject *object, const char **key, Py_ssize_t *bytes)
{
	if (PyUnicode_Check(object)) {
		*key = PyUnicode_AsUTF8AndSize(object, bytes);
		return *key ? 0 : -1;
	}
	return PyBytes_AsStringAndSize(object, (char **)key, bytes);
}

/* A value, None if there is no such key, or what libkvd's result is. */
static PyObject *answer(int result, const void *value, size_t bytes)
{
	if (result == KVD_OK)
		return PyBytes_FromStringAndSize(value, (Py_ssize_t)bytes);
	if (result == KVD_NOT_FOUND)
		Py_RETURN_NONE;
	return PyLong_FromLong(result);
}

/* get(session, key, address, room): into memory of that room, which the session's lock guards.
 * NotImplemented: the key is neither str nor bytes. */
static PyObject *get(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
	const char *key;
	Py_ssize_t key_bytes;
	size_t bytes = 0;
	int rc;

	(void)self;
	if (count != 4)
		return PyErr_Format(PyExc_TypeError, "get() takes 4 arguments, not %zd", count);
	if (!PyUnicode_Check(args[1]) && !PyBytes_Check(args[1]))
		Py_RETURN_NOTIMPLEMENTED;
	kvd_session *session = PyLong_AsVoidPtr(args[0]);
	void *room = PyLong_AsVoidPtr(args[2]);
	size_t room_bytes = PyLong_AsSize_t(args[3]);
	if (PyErr_Occurred() || key_of(args[1], &key, &key_bytes))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	rc = get_fn(session, key, (size_t)key_bytes, room, room_bytes, &bytes, NULL);
	Py_END_ALLOW_THREADS
	return answer(rc, room, bytes);
}

static int fill(struct kvd_item *items, PyObject *keys, Py_ssize_t count, char *room,
		size_t room_bytes)
{
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *object = PyList_GetItem(keys, i);
		const char *key;
		Py_ssize_t key_bytes;
		if (!object || key_of(object, &key, &key_bytes))
			return -1;
		items[i] = (struct kvd_item){ .key = key,
					      .key_bytes = (size_t)key_bytes,
					      .value = room + (size_t)i * room_bytes,
					      .value_bytes_max = room_bytes,
					      .result = KVD_ECONNECT };
	}
	return 0;
}

static PyObject *answers(const struct kvd_item *items, Py_ssize_t count)
{
	PyObject *all = PyList_New(count);

	for (Py_ssize_t i = 0; all && i < count; i++) {
		PyObject *one = answer(items[i].result, items[i].value, items[i].value_bytes);
		if (!one || PyList_SetItem(all, i, one)) { /* which takes it over */
			Py_DECREF(all);
			return NULL;
		}
	}
	return all;
}

/* get_many(session, keys, address, room of each): a list, each as of get() */
static PyObject *get_many(PyObject *self, PyObject *args)
{
	unsigned long long session, address;
	Py_ssize_t room_bytes;
	PyObject *keys, *all = NULL;

	(void)self;
	if (!PyArg_ParseTuple(args, "KOKn", &session, &keys, &address, &room_bytes))
		return NULL;
	Py_ssize_t count = PyList_Size(keys);
	if (count < 0)
		return NULL;
	struct kvd_item *items = calloc((size_t)count + 1, sizeof *items);
	if (!items)
		return PyErr_NoMemory();
	if (!fill(items, keys, count, (char *)(uintptr_t)address, (size_t)room_bytes)) {
		Py_BEGIN_ALLOW_THREADS
		mget_fn((kvd_session *)(uintptr_t)session, items, (size_t)count);
		Py_END_ALLOW_THREADS
		all = answers(items, count);
	}
	free(items);
	return all;
}

static PyMethodDef methods[] = {
	{ "set_up", set_up, METH_VARARGS, NULL },
	{ "get", (PyCFunction)(void (*)(void))get, METH_FASTCALL, NULL },
	{ "get_many", get_many, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, "kvd._fast", NULL, -1, methods,
				     NULL, NULL, NULL, NULL };

PyMODINIT_FUNC PyInit__fast(void);
PyMODINIT_FUNC PyInit__fast(void)
{
	return PyModule_Create(&module);
}
