# SPDX-License-Identifier: BSD-2-Clause
# Whether standard input is Prometheus' text format, version 0.0.4, and written as its
# own tool wants it: tells each mistake, and ends with 1 if there is one.
function wrong(what) { print "line " NR ": " what ": " $0; bad = 1 }
function is_number(v) { return v ~ /^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$/ || v ~ /^([-+]?Inf|NaN)$/ }

# Takes labels off `rest`; sets labels (without le), le. False if they are malformed.
function take_labels(   name, value) {
	labels = ""; le = ""
	if (substr(rest, 1, 1) != "{") return 1
	rest = substr(rest, 2)
	while (substr(rest, 1, 1) != "}") {
		if (!match(rest, /^[a-zA-Z_][a-zA-Z0-9_]*="/)) return 0
		name = substr(rest, 1, RLENGTH - 2); rest = substr(rest, RLENGTH + 1)
		if (!match(rest, /^([^"\\\n]|\\["\\n])*"/)) return 0
		value = substr(rest, 1, RLENGTH - 1); rest = substr(rest, RLENGTH + 1)
		if (index(labels, "," name "=")) return 0
		if (name == "le") le = value; else labels = labels "," name "=" value
		if (substr(rest, 1, 1) == ",") rest = substr(rest, 2)
		else if (substr(rest, 1, 1) != "}") return 0
	}
	rest = substr(rest, 2)
	return 1
}

function end_histogram() {
	if (hist == "") return
	if (last_le != "+Inf") { print "histogram " hist ": no bucket of +Inf"; bad = 1 }
	if (hist in counted && counted[hist] != last_count) { print "histogram " hist ": count is not its last bucket"; bad = 1 }
	if (!(hist in summed)) { print "histogram " hist ": no sum"; bad = 1 }
	if (!(hist in counted)) { print "histogram " hist ": no count"; bad = 1 }
	hist = ""
}

/^# HELP / {
	if ($3 in help) wrong("a second HELP")
	if (NF < 4) wrong("an empty HELP")
	help[$3] = 1; next
}
/^# TYPE / {
	end_histogram()
	if ($3 in type) wrong("a second TYPE")
	if (!($3 in help)) wrong("a TYPE without HELP before")
	if ($4 !~ /^(counter|gauge|histogram|summary|untyped)$/) wrong("no such type")
	if ($3 !~ /^[a-zA-Z_:][a-zA-Z0-9_:]*$/) wrong("no name of a metric")
	if ($4 == "counter" && $3 !~ /_total$/) wrong("a counter that does not end in _total")
	if ($4 != "counter" && $3 ~ /_total$/) wrong("_total, but no counter")
	if ($4 != "histogram" && $3 ~ /_(bucket|sum|count)$/) wrong("a name as of a histogram")
	if ($3 ~ /(milliseconds|_ms|_us|_ns|kilobytes|_kb|_mb)(_total)?$/) wrong("not in base units")
	if (tolower($3) != $3) wrong("capital letters")
	type[$3] = $4; current = $3; next
}
/^#/ || /^$/ { next }
{
	if (!match($0, /^[a-zA-Z_:][a-zA-Z0-9_:]*/)) { wrong("no name"); next }
	name = substr($0, 1, RLENGTH); rest = substr($0, RLENGTH + 1)
	if (!take_labels()) { wrong("labels"); next }
	if (rest !~ /^ [^ ]+( [0-9]+)?$/) { wrong("no value"); next }
	split(substr(rest, 2), part, " ")
	if (!is_number(part[1])) wrong("the value is no number")
	if ((name labels le) in seen) wrong("told twice")
	seen[name labels le] = 1; samples++
	base = name
	if (type[current] == "histogram") sub(/_(bucket|sum|count)$/, "", base)
	if (base != current) { wrong("not behind its TYPE"); next }
	if (type[current] == "counter" && part[1] < 0) wrong("a counter below 0")
	if (type[current] != "histogram") next
	id = base labels
	if (name ~ /_bucket$/) {
		if (le == "") wrong("a bucket without le")
		if (hist != id) { end_histogram(); hist = id; last_le = ""; last_count = 0 }
		else if (le != "+Inf" && le + 0 <= last_le + 0) wrong("le does not ascend")
		if (part[1] + 0 < last_count) wrong("a bucket has less than the one before")
		last_le = le; last_count = part[1] + 0
	} else if (name ~ /_sum$/) summed[id] = 1
	else counted[id] = part[1] + 0
}
END {
	end_histogram()
	for (name in help) if (!(name in type)) { print name ": HELP without TYPE"; bad = 1 }
	if (samples < 1) { print "no samples"; bad = 1 }
	exit bad
}
