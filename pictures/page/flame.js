/* SPDX-License-Identifier: MIT
 * The flame graph: the part of a tree that is worth drawing, handed to d3-flame-graph as nested
 * objects, and the keyboard. Zooming draws anew, so that what was too narrow before is there. */
'use strict';

const FLAME = {
	boxes: 5000,		/* drawn at a time */
	levels: 250,		/* below the one zoomed to; deeper ones are one box that leads on */
	ancestors: 40,		/* above it */
	narrowest: 0.4,		/* pixels; so many together are drawn as one box */
	note: 3,
	row: 18, label: 35, cell: 7.3,
};

/* What is drawn for a node: {v, c, node} or, where something is left out, {v, note, node: where to
 * zoom to}. d3-flame-graph reads v (samples), c (children) and fade (an ancestor of the zoomed). */
function drawnBoxes(tree, zoomed, width) {
	const least = chooseThreshold(tree, zoomed, width);
	const top = {v: tree.total[zoomed], node: zoomed};
	const open = [[top, 0]];
	let drawn = 1, left = 0;
	for (const [box, level] of open) {
		const children = childrenOf(tree, box.node);
		if (level === FLAME.levels && children.length) {
			box.c = [{v: tree.total[children[0]], node: children[0],
				note: 'deeper frames: click to go on'}];
			continue;
		}
		const wide = children.filter(child => tree.total[child] >= least)
			.slice(0, Math.max(0, FLAME.boxes - drawn));
		const narrow = children.slice(wide.length);
		drawn += wide.length;
		left += narrow.length;
		box.c = wide.map(child => ({v: tree.total[child], node: child}));
		for (const child of box.c)
			open.push([child, level + 1]);
		const sum = narrow.reduce((all, child) => all + tree.total[child], 0);
		if (sum >= FLAME.note * tree.total[zoomed] / width)
			box.c.push({v: sum, node: box.node, note: `${grouped(narrow.length)} narrower`});
	}
	return {root: withAncestors(tree, top), left};
}

/* The samples that a box must have so that there are not too many boxes, ties aside. */
function chooseThreshold(tree, zoomed, width) {
	const narrowest = tree.total[zoomed] / width * FLAME.narrowest;
	const inside = new Uint8Array(tree.count), totals = [];
	inside[zoomed] = 1;
	for (let i = zoomed + 1; i < tree.count; i++) {
		if (!inside[tree.parent[i]])
			continue;
		inside[i] = 1;
		if (tree.total[i] >= narrowest && tree.depth[i] - tree.depth[zoomed] <= FLAME.levels)
			totals.push(tree.total[i]);
	}
	if (totals.length <= FLAME.boxes)
		return narrowest;
	return totals.sort((a, b) => b - a)[FLAME.boxes];
}

/* From the root down to the zoomed, each as wide as the picture. */
function withAncestors(tree, top) {
	const path = [];
	for (let node = top.node; node !== 0;) {
		node = tree.parent[node];
		path.push(node);
	}
	const v = top.v;
	let box = top;
	path.forEach((node, i) => {
		const last = i === path.length - 1;
		if (i < FLAME.ancestors || last)
			box = {v, node, fade: true, c: [box]};
		else if (i === FLAME.ancestors)
			box = {v, node, fade: true, c: [box],
				note: `${grouped(path.length - 1 - i)} more frames: click to go there`};
	});
	return box;
}

/* What says least in an extension module's name. */
const withoutAbiTag = text => text.replace(/\.cpython-[^ ]*?\.so/, '');

/* The whole text; without room for it, the name alone. */
function labelFor(text, room) {
	if (text.length * FLAME.cell <= room - 6)
		return text;
	return withoutAbiTag(text.replace(/ \([^()]*\)( \[guessed\])?$/, ''));
}

function makeFlame(element, about, report) {
	const view = {tree: null, zoomed: 0, icicle: false, hits: null, left: 0, at: null};
	let width = 0;
	const pixels = d => d.x1 - d.x0 === 0 ? 0 : (d.x1 - d.x0) * width;
	const labelOf = d => pixels(d) < FLAME.label ? '' : labelFor(name(d.data), pixels(d));
	const name = box => box.note ? `\u2026 ${box.note}` : textOf(view.tree, box.node);

	const chart = flamegraph.default().cellHeight(FLAME.row).transitionDuration(0).resetHeightOnZoom(true)
		.getName(labelOf)
		.setLabelHandler(d => describe(d.data))
		.setColorMapper(d => colour(d.data));

	function colour(box) {
		const {tree, hits} = view;
		if (box.note)
			return 'var(--note-0)';
		if (box.node === 0)
			return 'var(--root-0)';
		return hits && hits[tree.frame[box.node]] ? 'var(--hit)' : colourOf(tree.profile,
			tree.frame[box.node]);
	}

	function describe(box) {
		const {tree} = view, node = box.node, all = tree.total[0];
		if (box.note)
			return `${name(box)} \u00b7 ${grouped(box.v)} samples, ${percent(box.v, all)}`;
		const parts = [name(box), `${grouped(tree.total[node])} samples, ${percent(tree.total[node], all)}`,
			`self ${grouped(tree.self[node])}, ${percent(tree.self[node], all)}`];
		if (view.zoomed)
			parts.push(`${percent(tree.total[node], tree.total[tree.parent[node]])} of its caller`);
		if (node)
			parts.push(...placeOf(tree.profile, tree.frame[node]));
		return parts.join(' \u00b7 ');
	}

	function draw() {
		const {tree} = view;
		width = element.clientWidth;
		if (!tree || !width)
			return;
		if (tree.total[0] <= 0) {
			element.replaceChildren(Object.assign(document.createElement('p'),
				{className: 'empty', textContent: 'no samples'}));
			return;
		}
		const {root, left} = drawnBoxes(tree, view.zoomed, width);
		view.left = left;
		view.at = null;
		chart.width(width).inverted(view.icicle);
		const selection = d3.select(element);
		if (element.querySelector('svg'))
			selection.selectAll('svg>g').remove();
		else
			element.replaceChildren();
		selection.datum(root).call(chart);
		/* At once: d3-flame-graph's boxes would grow into their places. */
		selection.selectAll('g.frame>rect').interrupt().attr('width', pixels);
		selection.selectAll('g.frame div').interrupt().text(labelOf);
		if (!view.icicle)
			element.scrollTop = element.scrollHeight;
		report(view);
	}

	function zoom(node) {
		view.zoomed = node;
		draw();
		if (view.icicle)
			element.scrollTop = 0;
	}

	const boxOf = target => {
		const g = target.closest && target.closest('g.frame');
		return g ? d3.select(g).datum() : null;
	};

	/* Before d3-flame-graph's own handler, which zooms without drawing anew. */
	element.addEventListener('click', event => {
		const box = boxOf(event.target);
		if (box) {
			event.stopPropagation();
			zoom(box.data.node);
		}
	}, true);
	element.addEventListener('mouseover', event => {
		const box = boxOf(event.target);
		about.textContent = box ? describe(box.data) : '';
	});

	function walk(key, at) {
		const level = d3.select(element).datum().descendants().filter(box => box.depth === at.depth);
		const inward = view.icicle ? 'ArrowDown' : 'ArrowUp';
		switch (key) {
		case 'ArrowLeft': return level[level.indexOf(at) - 1];
		case 'ArrowRight': return level[level.indexOf(at) + 1];
		case 'ArrowUp': case 'ArrowDown': return key === inward ? (at.children || [])[0] : at.parent;
		}
		return null;
	}

	function mark(box) {
		view.at = box;
		d3.select(element).selectAll('g.frame').classed('at', d => d === box)
			.filter(d => d === box).each(function show() { this.scrollIntoView({block: 'nearest'}); });
		about.textContent = describe(box.data);
	}

	element.addEventListener('keydown', event => {
		if (event.ctrlKey || event.altKey || event.metaKey || !view.tree || view.tree.total[0] <= 0)
			return;
		if (event.key.startsWith('Arrow')) {
			const root = d3.select(element).datum();
			const next = view.at ? walk(event.key, view.at) :
				root.find(box => box.data.node === view.zoomed && !box.data.note);
			if (next)
				mark(next);
		} else if ((event.key === 'Enter' || event.key === ' ') && view.at) {
			const {node} = view.at.data;
			zoom(node);
			mark(d3.select(element).datum().find(box => box.data.node === node && !box.data.note));
		} else {
			return;
		}
		event.preventDefault();
	});

	return {
		view, draw, zoom,
		/* Another tree; what was zoomed to is found again by its path. */
		show(tree) {
			view.zoomed = view.tree ? sameNode(view.tree, view.zoomed, tree) : 0;
			view.tree = tree;
			draw();
		},
		mark(hits) {
			view.hits = hits;
			d3.select(element).selectAll('g.frame>rect').attr('fill', box => colour(box.data));
		},
		turn(icicle) {
			view.icicle = icicle;
			draw();
			if (icicle)
				element.scrollTop = 0;
		},
		/* To the width that it has now. */
		fit() {
			if (element.clientWidth !== width)
				draw();
		},
	};
}

/* The node of another tree with the same texts above it; as much of the path as there is. */
function sameNode(from, node, to) {
	const path = [];
	for (; node !== 0; node = from.parent[node])
		path.unshift(textOf(from, node));
	let at = 0;
	for (const text of path) {
		const next = childrenOf(to, at).find(child => textOf(to, child) === text);
		if (next === undefined)
			break;
		at = next;
	}
	return at;
}
