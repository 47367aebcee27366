/* SPDX-License-Identifier: MIT
 * The profile in the page's data, and what is chosen of it: threads, a range of time, kinds of
 * frames. loadProfile() is the only reader of the data, wherever that comes from; its form is
 * described at the head of output/html.c. Nothing here knows of the page. */
'use strict';

/* Flat arrays, as there may be 200,000 nodes. Parents come before their children; node 0 is all. */
function loadProfile(data) {
	const count = data.nodes.up.length;
	const parent = new Int32Array(count);
	for (let i = 1; i < count; i++)
		parent[i] = i - data.nodes.up[i];
	const profile = {
		...data,
		count,
		parent,
		frame: Int32Array.from(data.nodes.frame),
		frames: data.frames.text.length,
		texts: data.frames.text.map(id => data.strings[id]),
		functionOf: Int32Array.from(data.frames.function),
		lineOf: Int32Array.from(data.frames.line),
		functionTexts: data.functions.text.map(id => data.strings[id]),
		kindOf: Uint8Array.from(data.functions.kind),
		bins: data.time.bins,
		runs: readRuns(data.time.threads),
	};
	profile.children = listChildren(parent);
	profile.lines = numberLines(profile);
	return profile;
}

/* A run: `count` samples in each of `repeat` bins from `bin` on. In the data four numbers each,
 * thread by thread: bins since the run before began, twice the node and one if the thread was idle,
 * count, repeat. */
function readRuns(threads) {
	const size = threads.reduce((sum, list) => sum + list.length / 4, 0);
	const runs = {
		size,
		thread: new Int32Array(size), bin: new Int32Array(size), repeat: new Int32Array(size),
		node: new Int32Array(size), count: new Float64Array(size), idle: new Uint8Array(size),
	};
	let at = 0;
	threads.forEach((list, thread) => {
		let bin = 0;
		for (let i = 0; i < list.length; i += 4, at++) {
			bin += list[i];
			runs.thread[at] = thread;
			runs.bin[at] = bin;
			runs.node[at] = list[i + 1] >> 1;
			runs.idle[at] = list[i + 1] & 1;
			runs.count[at] = list[i + 2];
			runs.repeat[at] = list[i + 3];
		}
	});
	return runs;
}

/* The children of node i are list[start[i]] to list[start[i + 1] - 1]. */
function listChildren(parent) {
	const count = parent.length;
	const start = new Int32Array(count + 1), list = new Int32Array(Math.max(0, count - 1));
	for (let i = 1; i < count; i++)
		start[parent[i] + 1]++;
	for (let i = 0; i < count; i++)
		start[i + 1] += start[i];
	const next = start.slice();
	for (let i = 1; i < count; i++)
		list[next[parent[i]]++] = i;
	return {start, list};
}

/* Each line of a source file has a number of its own: frames without one have -1. */
function numberLines(profile) {
	const ids = new Map(), of = new Int32Array(profile.frames).fill(-1), list = [];
	for (let i = 0; i < profile.frames; i++) {
		const file = profile.functions.file[profile.functionOf[i]], line = profile.lineOf[i];
		if (file < 0 || line <= 0)
			continue;
		const key = `${file}:${line}`;
		if (!ids.has(key)) {
			ids.set(key, list.length);
			list.push({file, line});
		}
		of[i] = ids.get(key);
	}
	return {of, list};
}

/* ---- what is chosen ------------------------------------------------------------------------- */

/* choice: {threads: a Set or null for all, from, to: bins, hidden: a Set of kinds, idle, lines} */
const isChosen = (runs, i, choice) => (choice.idle || !runs.idle[i]) &&
	(!choice.threads || choice.threads.has(runs.thread[i]));

function selfCounts(profile, choice) {
	const {runs} = profile, self = new Float64Array(profile.count);
	for (let i = 0; i < runs.size; i++) {
		if (!isChosen(runs, i, choice))
			continue;
		const bins = Math.min(runs.bin[i] + runs.repeat[i], choice.to) -
			Math.max(runs.bin[i], choice.from);
		if (bins > 0)
			self[runs.node[i]] += bins * runs.count[i];
	}
	return self;
}

const kindOfFrame = (profile, frame) => profile.kindOf[profile.functionOf[frame]];

function addUp(parent, self) {
	const total = self.slice();
	for (let i = total.length - 1; i > 0; i--)
		total[parent[i]] += total[i];
	return total;
}

/* The tree as it is shown: hidden frames are left out, and what ended in them counts as their
 * caller's; siblings that are called the same are one. key: a frame, or without lines a function. */
function shownTree(profile, self, choice) {
	const keyOf = choice.lines ? frame => frame : frame => profile.functionOf[frame];
	const keys = choice.lines ? profile.frames : profile.functionTexts.length;
	const total = addUp(profile.parent, self);
	const shown = new Int32Array(profile.count), known = new Map();
	const parent = [0], frame = [-1], key = [-1], depth = [0], own = [self[0]];
	for (let i = 1; i < profile.count; i++) {
		const above = shown[profile.parent[i]], at = profile.frame[i];
		if (total[i] <= 0 || choice.hidden.has(kindOfFrame(profile, at))) {
			shown[i] = above;
			own[above] += self[i];
			continue;
		}
		const id = above * keys + keyOf(at);
		let node = known.get(id);
		if (node === undefined) {
			node = parent.length;
			known.set(id, node);
			parent.push(above);
			frame.push(at);
			key.push(keyOf(at));
			depth.push(depth[above] + 1);
			own.push(0);
		}
		shown[i] = node;
		own[node] += self[i];
	}
	const tree = {
		profile, keys, lines: choice.lines, count: parent.length, parent: Int32Array.from(parent),
		frame, key, depth, self: Float64Array.from(own),
	};
	tree.total = addUp(tree.parent, tree.self);
	tree.children = listChildren(tree.parent);
	return tree;
}

/* A tree over the profile's own nodes, for what needs every line. */
function wholeTree(profile, self) {
	return {
		profile, count: profile.count, parent: profile.parent, frame: profile.frame, self,
		total: addUp(profile.parent, self), children: profile.children,
	};
}

/* The children of a node that have samples, heaviest first. */
function childrenOf(tree, node) {
	const {start, list} = tree.children;
	const found = [];
	for (let i = start[node]; i < start[node + 1]; i++)
		if (tree.total[list[i]] > 0)
			found.push(list[i]);
	return found.sort((a, b) => tree.total[b] - tree.total[a] || a - b);
}

const textOf = (tree, node) => node === 0 ? 'all' : tree.lines ?
	tree.profile.texts[tree.frame[node]] :
	tree.profile.functionTexts[tree.profile.functionOf[tree.frame[node]]];

/* Self and total of each key (a function, a line); recursion counts once. keyOf: node to key or -1. */
function tally(tree, keys, keyOf) {
	const self = new Float64Array(keys), total = new Float64Array(keys), open = new Int32Array(keys);
	const {start, list} = tree.children;
	const path = [0], at = [start[0]];
	enter(0);
	while (path.length) {
		const node = path[path.length - 1];
		if (at[at.length - 1] < start[node + 1]) {
			const child = list[at[at.length - 1]++];
			enter(child);
			path.push(child);
			at.push(start[child]);
		} else {
			const key = node ? keyOf(node) : -1;
			if (key >= 0)
				open[key]--;
			path.pop();
			at.pop();
		}
	}
	return {self, total};

	function enter(node) {
		const key = node ? keyOf(node) : -1;
		if (key < 0)
			return;
		self[key] += tree.self[node];
		if (open[key]++ === 0)
			total[key] += tree.total[node];
	}
}

/* The samples whose stack has a frame that matches: frames is an array of 0 and 1. */
function matchedSamples(tree, frames) {
	let sum = 0;
	const inside = new Uint8Array(tree.count);
	for (let i = 1; i < tree.count; i++) {
		const above = tree.parent[i];
		if (inside[above]) {
			inside[i] = 1;
		} else if (frames[tree.frame[i]]) {
			inside[i] = 1;
			sum += tree.total[i];
		}
	}
	return sum;
}

/* What is no regular expression is taken as it is. */
function searchPattern(text) {
	try {
		return new RegExp(text, 'i');
	} catch (error) {
		return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i');
	}
}

function matchingFrames(profile, text) {
	if (!text)
		return null;
	const pattern = searchPattern(text);
	return Uint8Array.from(profile.texts, name => pattern.test(name) ? 1 : 0);
}

/* For the strip: samples by kind of their leaf in each bin. */
function countsOverTime(profile, choice) {
	const {runs} = profile;
	const counts = profile.kinds.map(() => new Float64Array(profile.bins));
	for (let i = 0; i < runs.size; i++) {
		if (!isChosen(runs, i, choice) || !runs.node[i])
			continue;
		const list = counts[kindOfFrame(profile, profile.frame[runs.node[i]])];
		for (let bin = runs.bin[i]; bin < runs.bin[i] + runs.repeat[i]; bin++)
			list[bin] += runs.count[i];
	}
	return counts;
}

/* ---- numbers --------------------------------------------------------------------------------- */

const grouped = value => String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');

/* As many decimals as say something: 12.3, 0.04. */
function percent(part, whole) {
	const value = whole > 0 ? 100 * part / whole : 0;
	const decimals = value > 0 && value < 1 ? Math.min(4, 1 - Math.floor(Math.log10(value))) : 1;
	return `${value.toFixed(decimals).replace(/(\.\d)0+$/, '$1')} %`;
}

function seconds(ns) {
	const value = ns / 1e9;
	return value >= 60 ? `${Math.floor(value / 60)}:${(value % 60).toFixed(value < 600 ? 1 : 0)
		.padStart(value < 600 ? 4 : 2, '0')} min` :
		`${value.toFixed(value < 1 ? 3 : value < 10 ? 2 : 1)} s`;
}
