/* SPDX-License-Identifier: MIT
 * The flame graph's script: zoom, search, keyboard, status line, and the width of the window.
 * The picture stands without it; it only moves, hides and labels what is there. Every box has its
 * place in samples and levels (data-x, data-n, data-d); the first line of its tooltip is its text.
 * It stands in a CDATA section, so it must not hold that section's end mark. */
(() => {
'use strict';
const SVG = 'http://www.w3.org/2000/svg', HTML = 'http://www.w3.org/1999/xhtml';
const ROW = 16, MARGIN = 10, PADDING = 3, MIN_CELLS = 3, NARROWEST = 480;
const script = document.currentScript;
const root = script && script.closest ? script.closest('svg') : document.documentElement;
const alone = root === document.documentElement;
const layer = root.querySelector('.boxes'), head = root.querySelector('.head');
const status = root.querySelector('.status');
const top = +root.dataset.top, icicle = root.classList.contains('icicle');
const gap = ' \u00b7 ';
const hint = ['click to zoom', 'Esc resets', '/ or Ctrl-F searches', 'arrow keys walk, Enter zooms']
	.join(gap);

const boxes = Array.from(layer.children, g => {
	const lines = g.querySelector('title').textContent.split('\n');
	g.setAttribute('tabindex', '-1');
	return {
		g, rect: g.querySelector('rect'), label: g.querySelector('text'),
		text: lines[0], about: lines.slice(1).join(gap),
		x: +g.dataset.x, n: +g.dataset.n, d: +g.dataset.d, fold: +g.dataset.f || 0,
		note: g.classList.contains('note'), row: 0, shown: true, parent: null,
	};
});
const all = boxes[0];
const byElement = new Map(boxes.map(box => [box.g, box]));
const levels = Array.from({length: boxes.reduce((most, box) => Math.max(most, box.d), 0) + 1},
	() => []);
boxes.forEach(box => levels[box.d].push(box));
levels.forEach(level => level.sort((a, b) => a.x - b.x || a.note - b.note));
levels.forEach((level, d) => {
	let at = 0;
	for (const box of d ? level : []) {
		while (at + 1 < levels[d - 1].length && levels[d - 1][at + 1].x <= box.x)
			at++;
		box.parent = levels[d - 1][levels[d - 1][at].note ? at - 1 : at];
	}
});
/* Where each fold begins: parents come before their children. */
const tops = new Map();
boxes.forEach(box => box.fold && !box.note && !tops.has(box.fold) && tops.set(box.fold, box));

/* opened: the one fold whose boxes are shown, and not its note. */
let zoomed = all, opened = 0, deepest = 0, query = '', width = 1200, cell = 7.25;

/* ---- labels ------------------------------------------------------------------------------- */

const cellsOf = c => c.codePointAt(0) >= 0x1000 ? 2 : 1;

function cut(text, room) {
	let used = 0, kept = '';
	for (const c of text) {
		used += cellsOf(c);
		if (used > room)
			return kept.replace(/.$/u, '') + '\u2026';
		kept += c;
	}
	return text;
}

/* The whole text, else the name without "(file:line)" and ABI tag, else what fits of the name. */
function labelFor(text, room) {
	if (room < MIN_CELLS)
		return '';
	if (cut(text, room) === text)
		return text;
	return cut(text.replace(/ \([^()]*\)( \[guessed\])?$/, '')
		.replace(/\.cpython-[^ ]*?\.so/, ''), room);
}

function setLabel(box, x, y, boxWidth) {
	const label = labelFor(box.text, Math.floor((boxWidth - 2 * PADDING) / cell));
	if (!label && !box.label)
		return;
	if (!box.label)
		box.label = box.g.appendChild(document.createElementNS(SVG, 'text'));
	box.label.textContent = label;
	box.label.setAttribute('x', (x + PADDING).toFixed(2));
	box.label.setAttribute('y', y + 11.5);
}

/* ---- places ------------------------------------------------------------------------------- */

const contains = (outer, inner) => outer.d <= inner.d && outer.x <= inner.x &&
	outer.x + outer.n >= inner.x + inner.n;

const closed = box => box.fold !== 0 && box.fold !== opened;

/* A fold takes one row while it is closed: what goes on inside of it stands on that. */
function setRows() {
	deepest = 0;
	for (const box of boxes) {
		const parent = box.parent;
		box.row = parent ? parent.row + !(closed(box) && parent.fold === box.fold) : 0;
		if (!box.note || closed(box))
			deepest = Math.max(deepest, box.row);
	}
	const height = top + ROW * (deepest + 1) + MARGIN;
	root.setAttribute('height', height);
	root.setAttribute('viewBox', `0 0 ${width} ${height}`);
}

function place(box) {
	const room = width - 2 * MARGIN;
	const above = box !== zoomed && contains(box, zoomed);
	const boxWidth = above ? room : box.n / zoomed.n * room;
	box.shown = (above || contains(zoomed, box)) && box.note === closed(box);
	box.g.classList.toggle('off', !box.shown);
	box.g.classList.toggle('up', above);
	if (!box.shown)
		return;
	const x = MARGIN + (above ? 0 : (box.x - zoomed.x) / zoomed.n * room);
	const y = top + ROW * (icicle ? box.row : deepest - box.row);
	box.rect.setAttribute('y', y);
	box.rect.setAttribute('x', x.toFixed(2));
	box.rect.setAttribute('width', Math.max(0.3, boxWidth > 2 ? boxWidth - 0.5 : boxWidth)
		.toFixed(2));
	setLabel(box, x, y, boxWidth);
}

function draw() {
	boxes.forEach(place);
	reset.hidden = zoomed === all;
}

/* One unit of the picture is one pixel, so that text keeps its size in every window. */
function fit() {
	const now = Math.max(NARROWEST, Math.floor(root.getBoundingClientRect().width));
	width = now || width;
	setRows();
	tools.setAttribute('x', width - tools.getAttribute('width') - MARGIN);
	draw();
	follow();
}

/* The head stays in sight while a tall graph is scrolled. */
function follow() {
	const up = alone ? window.scrollY : -root.getBoundingClientRect().top;
	const most = root.getAttribute('height') - top;
	head.setAttribute('transform', `translate(0,${Math.max(0, Math.min(up, most))})`);
}

/* ---- zoom and search ---------------------------------------------------------------------- */

/* What was opened is above what is around it; else the root is what one wants to see. */
function scrollToZoomed() {
	const y = zoomed.rect.y.baseVal.value, around = 4 * ROW;
	const base = icicle ? 0 : root.getAttribute('height');
	if (alone)
		window.scrollTo(0, !opened ? base : icicle ? y - top - around : y + around - innerHeight);
	follow();
}

/* A fold stays open while what is zoomed to is in it, around it or inside of it. */
function zoom(box, remember) {
	const before = opened, related = opened && (contains(box, tops.get(opened)) ||
		contains(tops.get(opened), box));
	opened = box.fold || (related && box !== all ? opened : 0);
	zoomed = box.note ? tops.get(box.fold) : box;
	if (opened !== before)
		setRows();
	draw();
	if (opened !== before)
		scrollToZoomed();
	if (remember)
		save(true);
}

function pattern(text) {
	try {
		return new RegExp(text, 'i');
	} catch (error) {
		return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i');
	}
}

/* Marks what matches. A match inside a match counts once: an ancestor comes first in this order. */
function search(text) {
	query = text;
	const wanted = text ? pattern(text) : null;
	const hits = boxes.filter(box => {
		const hit = wanted !== null && box.d > 0 && !box.note && wanted.test(box.text);
		box.g.classList.toggle('hit', hit);
		return hit;
	}).sort((a, b) => a.x - b.x || a.d - b.d);
	let sum = 0, end = -1;
	for (const hit of hits) {
		if (hit.x < end)
			continue;
		sum += hit.n;
		end = hit.x + hit.n;
	}
	const folds = new Set(hits.map(box => box.fold));
	boxes.forEach(box => box.note && box.g.classList.toggle('hit', folds.has(box.fold)));
	matched.textContent = text ? `matched ${(100 * sum / all.n).toFixed(1)} %` : '';
	return hits;
}

/* ---- the address: #x=120&d=4&n=fit (als.py:159)&s=dgemm ------------------------------------- */

function save(step) {
	const state = new URLSearchParams();
	if (zoomed !== all) {
		state.set('x', zoomed.x);
		state.set('d', zoomed.d);
		state.set('n', zoomed.text.slice(0, 200));
	}
	if (query)
		state.set('s', query);
	try {
		history[step ? 'pushState' : 'replaceState'](null, '', '#' + state);
	} catch (error) {
		/* Some hosts do not let a picture have an address; it works without. */
	}
}

/* A recording made anew has other places: then the widest box of that name will do. */
function restore() {
	const state = new URLSearchParams(location.hash.slice(1));
	const name = state.get('n');
	const named = boxes.filter(box => name !== null && box.text.slice(0, 200) === name);
	const same = named.find(box => box.x === +state.get('x') && box.d === +state.get('d'));
	zoom(same || named.sort((a, b) => b.n - a.n)[0] || all, false);
	input.value = state.get('s') || '';
	search(input.value);
}

/* ---- the tools: made here, as they do nothing without a script ------------------------------ */

function element(name, parent, properties) {
	return parent.appendChild(Object.assign(document.createElementNS(HTML, name), properties));
}

const tools = head.appendChild(document.createElementNS(SVG, 'foreignObject'));
for (const [name, value] of [['y', 6], ['width', 410], ['height', 32]])
	tools.setAttribute(name, value);
const bar = element('div', tools, {className: 'tools'});
const matched = element('span', bar, {className: 'matched'});
const reset = element('button', bar, {type: 'button', textContent: 'Reset zoom', hidden: true});
const input = element('input', bar, {type: 'search', placeholder: 'Search (regexp)',
	spellcheck: false});
input.setAttribute('aria-label', 'Search functions');
matched.setAttribute('aria-live', 'polite');

function say(box) {
	status.textContent = box ? cut(`${box.text}${gap}${box.about}`,
		Math.floor((width - 2 * MARGIN) / cell)) : hint;
}

/* ---- the keyboard --------------------------------------------------------------------------- */

/* Of what is shown: a closed fold's note has the place of all in it. */
function parentOf(box) {
	let parent = box.parent;
	while (parent && closed(parent) && parent.fold === box.fold)
		parent = parent.parent;
	return parent && closed(parent) ? noteOf(parent) : parent;
}
const noteOf = box => boxes.find(other => other.note && other.fold === box.fold);
const rowOf = row => boxes.filter(other => other.shown && other.row === row)
	.sort((a, b) => a.x - b.x);
const childOf = box => rowOf(box.row + 1).filter(other => other.x >= box.x &&
	other.x + other.n <= box.x + box.n).sort((a, b) => b.n - a.n)[0];

function besides(box, step) {
	const level = rowOf(box.row);
	return level[level.indexOf(box) + step];
}

function walk(key, box) {
	switch (key) {
	case 'ArrowUp': return icicle ? parentOf(box) : childOf(box);
	case 'ArrowDown': return icicle ? childOf(box) : parentOf(box);
	case 'ArrowLeft': return besides(box, -1);
	case 'ArrowRight': return besides(box, 1);
	}
	return null;
}

function focus(box) {
	box.g.setAttribute('aria-label', `${box.text} ${box.about}`);
	box.g.focus();
	say(box);
}

function pressed(event) {
	const typing = document.activeElement === input;
	const find = (event.ctrlKey || event.metaKey) && event.key === 'f' || event.key === 'F3' ||
		event.key === '/';
	if (event.key === 'Escape') {
		if (typing && query) {
			input.value = '';
			search('');
			save(false);
		} else {
			zoom(all, true);
		}
		input.blur();
	} else if (find && !typing) { /* pressed again, the browser's own search opens */
		input.focus();
		input.select();
	} else if (typing && event.key === 'Enter') {
		const widest = search(query).filter(box => box.shown).sort((a, b) => b.n - a.n)[0];
		if (widest)
			focus(widest);
	} else if (!typing && document.activeElement !== reset && !event.ctrlKey && !event.altKey &&
		   !event.metaKey) {
		const box = byElement.get(document.activeElement);
		if (box && (event.key === 'Enter' || event.key === ' ')) {
			zoom(box, true);
		} else if (event.key.startsWith('Arrow')) {
			const next = box && box.shown ? walk(event.key, box) : zoomed;
			if (next)
				focus(next);
		} else {
			return;
		}
	} else {
		return;
	}
	event.preventDefault();
}

/* ---- start ---------------------------------------------------------------------------------- */

const boxAt = event => byElement.get(event.target.closest('g[data-n]'));
layer.addEventListener('click', event => {
	const box = boxAt(event);
	if (box)
		zoom(box, true);
});
layer.addEventListener('mouseover', event => say(boxAt(event)));
layer.addEventListener('mouseleave', () => say(null));
reset.addEventListener('click', () => zoom(all, true));
input.addEventListener('input', () => {
	search(input.value);
	save(false);
});
(alone ? document : root).addEventListener('keydown', pressed);
window.addEventListener('resize', fit);
window.addEventListener('scroll', follow, {passive: true});
window.addEventListener('popstate', restore);

const probe = layer.appendChild(document.createElementNS(SVG, 'text'));
probe.textContent = 'm'.repeat(100);
cell = probe.getComputedTextLength() / 100 || cell;
probe.remove();

/* The file had to guess how wide its texts are. */
let legendEnd = MARGIN;
for (const item of root.querySelectorAll('.legend>g')) {
	const text = item.querySelector('text');
	item.querySelector('rect').setAttribute('x', legendEnd);
	text.setAttribute('x', legendEnd + 17);
	legendEnd += 17 + text.getComputedTextLength() + 18;
}

layer.classList.add('live');
root.setAttribute('role', 'group');
root.setAttribute('width', '100%');
say(null);
fit();
restore();
if (alone && !icicle)
	window.scrollTo(0, root.getAttribute('height'));
follow();
})();
