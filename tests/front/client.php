<?php
# SPDX-License-Identifier: BSD-2-Clause
# tests/front/client.php SOCKET: what a program in PHP does with memcached (php-memcached, over
# libmemcached).
if (!extension_loaded("memcached")) {
	exit(77);
}
$checks = 0;

function is($what, $got, $want)
{
	global $checks;
	if ($got !== $want) {
		fwrite(STDERR, "$what: " . var_export($got, true) . ", not " . var_export($want, true) . "\n");
		exit(1);
	}
	$checks++;
}

$cache = new Memcached();
foreach ([Memcached::OPT_CONNECT_TIMEOUT => 60000, Memcached::OPT_POLL_TIMEOUT => 60000,
	  Memcached::OPT_SEND_TIMEOUT => 60000000, Memcached::OPT_RECV_TIMEOUT => 60000000] as $option => $value) {
	$cache->setOption($option, $value);
}
is("addServer", $cache->addServer($argv[1], 0), true);

is("set", $cache->set("name", "Ada"), true);
is("get", $cache->get("name"), "Ada");
is("get of none", $cache->get("none"), false);
is("its code", $cache->getResultCode(), Memcached::RES_NOTFOUND);
is("add", $cache->add("name", "Bob"), false);
is("its code", $cache->getResultCode(), Memcached::RES_NOTSTORED);
is("replace of none", $cache->replace("none", "Eve"), false);

# What is kept in the client flags: types, and that it is compressed.
foreach (["int" => 42, "float" => 1.5, "true" => true, "null" => null, "list" => [1, ["two" => "three"]],
	  "empty" => "", "bytes" => implode("", array_map("chr", range(0, 255))) . "\r\nEND\r\n",
	  "long" => str_repeat("kvd ", 50000)] as $key => $value) {
	is("set of $key", $cache->set($key, $value), true);
	is("get of $key", $cache->get($key), $value);
}
is("setMulti", $cache->setMulti(["a" => 1, "b" => 2, "c" => 3]), true);
is("getMulti", $cache->getMulti(["a", "b", "none", "c"]), ["a" => 1, "b" => 2, "c" => 3]);

$found = $cache->get("name", null, Memcached::GET_EXTENDED);
is("get with cas", $found["value"], "Ada");
is("cas", $cache->cas($found["cas"], "name", "Ada L."), true);
is("cas again", $cache->cas($found["cas"], "name", "Bob"), false);
is("its code", $cache->getResultCode(), Memcached::RES_DATA_EXISTS);

is("set of a number", $cache->set("count", 10), true);
is("increment", $cache->increment("count", 5), 15);
is("decrement", $cache->decrement("count", 20), 0);
is("increment of none", $cache->increment("none"), false);
$cache->setOption(Memcached::OPT_COMPRESSION, false);
is("append", $cache->set("text", "b") && $cache->append("text", "c") && $cache->prepend("text", "a"), true);
is("what it is now", $cache->get("text"), "abc");
is("touch", $cache->touch("text", 100), true);
is("touch of none", $cache->touch("none", 100), false);
is("delete", $cache->delete("text"), true);
is("delete of none", $cache->delete("text"), false);
is("deleteMulti", $cache->deleteMulti(["a", "b"]), ["a" => true, "b" => true]);
is("getStats", count($cache->getStats()), 1);
is("getVersion", preg_match('/^1\.6\./', current($cache->getVersion())), 1);
is("flush", $cache->flush(), true);
is("get of what is gone", $cache->get("long"), false);
print("$checks checks\n");
