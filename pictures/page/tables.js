/* SPDX-License-Identifier: MIT
 * The tables: the tree from its root on, the same upside down, and the functions. Rows are made
 * when they are to be seen. */
'use strict';

const TABLE = {children: 100, rows: 500};

function element(name, properties, ...children) {
	const made = Object.assign(document.createElement(name), properties);
	made.append(...children);
	return made;
}

/* columns: [{title, width: a class of <col>, text}] */
function makeTable(role, columns, label) {
	const table = element('table', {}, element('colgroup', {}, ...columns.map(column =>
		element('col', {className: column.width}))));
	table.setAttribute('role', role);
	table.setAttribute('aria-label', label);
	const heads = columns.map(column => element('th', {scope: 'col',
		className: column.text ? 'text' : ''}, column.title));
	table.append(element('thead', {}, element('tr', {}, ...heads)));
	const body = table.appendChild(element('tbody', {}));
	return {table, body, heads};
}

function shareCell(part, whole, bar) {
	const cell = element('td', {className: bar ? 'bar' : '', textContent: part ? percent(part, whole) : ''});
	if (bar)
		cell.style.setProperty('--share', `${(whole > 0 ? 100 * part / whole : 0).toFixed(2)}%`);
	return cell;
}

const countCell = count => element('td', {textContent: count ? grouped(count) : ''});

function nameCell(profile, frame, text) {
	const swatch = element('span', {className: 'swatch'});
	swatch.style.background = colourOf(profile, frame);
	return [swatch, element('span', {className: 'name code', textContent: text})];
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* source: {roots(), children(item)}; an item: {frame, text, total, self, leaf, ...}. */
function makeTree(panel, label, columns) {
	const {table, body} = makeTable('treegrid', columns, label);
	const scroll = panel.appendChild(element('div', {className: 'scroll'}, table));
	let source = null, whole = 0, hits = null, profile = null;

	function rowOf(item, level) {
		const row = element('tr', {tabIndex: -1});
		const twist = element('span', {className: 'twist', textContent: item.leaf ? '' : '\u25b8'});
		const name = element('td', {className: 'text'});
		name.style.paddingLeft = `${8 + Math.min(level - 1, 40) * 12}px`;
		name.append(twist, ...nameCell(profile, item.frame, item.text));
		name.title = item.text;
		row.append(shareCell(item.total, whole, true), countCell(item.total),
			shareCell(item.self, whole), name);
		row.setAttribute('aria-level', level);
		if (!item.leaf)
			row.setAttribute('aria-expanded', 'false');
		row.classList.toggle('openable', !item.leaf);
		row.classList.toggle('hit', Boolean(hits && hits[item.frame]));
		row.item = item;
		row.level = level;
		return row;
	}

	function rowsOf(items, level) {
		const rows = items.slice(0, TABLE.children).map(item => rowOf(item, level));
		const rest = items.slice(TABLE.children);
		if (rest.length)
			rows.push(moreRow(rest, level));
		return rows;
	}

	function moreRow(rest, level) {
		const sum = rest.reduce((all, item) => all + item.total, 0);
		const row = element('tr', {tabIndex: -1, className: 'openable'}, shareCell(sum, whole, true),
			countCell(sum), element('td'), element('td', {className: 'text',
				textContent: `\u2026 ${grouped(rest.length)} more`}));
		row.lastChild.style.paddingLeft = `${22 + Math.min(level - 1, 40) * 12}px`;
		row.level = level;
		row.more = rest;
		return row;
	}

	function open(row) {
		if (row.more) {
			const rows = rowsOf(row.more, row.level);
			row.replaceWith(...rows);
			rows[0].focus();
			return;
		}
		if (row.item.leaf || row.getAttribute('aria-expanded') === 'true')
			return;
		row.after(...rowsOf(source.children(row.item), row.level + 1));
		row.setAttribute('aria-expanded', 'true');
		row.querySelector('.twist').textContent = '\u25be';
	}

	function close(row) {
		while (row.nextSibling && row.nextSibling.level > row.level)
			row.nextSibling.remove();
		row.setAttribute('aria-expanded', 'false');
		row.querySelector('.twist').textContent = '\u25b8';
	}

	const isOpen = row => row.getAttribute('aria-expanded') === 'true';

	function parentOf(row) {
		let above = row.previousSibling;
		while (above && above.level >= row.level)
			above = above.previousSibling;
		return above;
	}

	body.addEventListener('click', event => {
		const row = event.target.closest('tr');
		row.focus();
		if (!row.more && isOpen(row))
			close(row);
		else
			open(row);
	});
	body.addEventListener('keydown', event => {
		const row = event.target.closest('tr');
		if (!row || event.ctrlKey || event.altKey || event.metaKey)
			return;
		const focus = next => next && next.focus();
		switch (event.key) {
		case 'ArrowDown': focus(row.nextSibling); break;
		case 'ArrowUp': focus(row.previousSibling); break;
		case 'Home': focus(body.firstChild); break;
		case 'End': focus(body.lastChild); break;
		case 'ArrowRight':
			if (!row.more && isOpen(row))
				focus(row.nextSibling);
			else
				open(row);
			break;
		case 'ArrowLeft':
			if (!row.more && isOpen(row))
				close(row);
			else
				focus(parentOf(row));
			break;
		case 'Enter': case ' ':
			if (!row.more && isOpen(row))
				close(row);
			else
				open(row);
			break;
		default: return;
		}
		event.preventDefault();
	});

	return {
		scroll,
		/* openTo: a row is opened as long as it has so much of all samples. */
		show(tree, made, openTo) {
			profile = tree.profile;
			whole = tree.total[0];
			source = made;
			body.replaceChildren(...rowsOf(source.roots(), 1));
			for (let row = body.firstChild; row && !row.more && !row.item.leaf &&
				row.item.total >= openTo * whole && row.level < 100; row = row.nextSibling)
				open(row);
			if (body.firstChild)
				body.firstChild.tabIndex = 0;
			else
				body.append(element('tr', {}, element('td', {className: 'empty', colSpan: columns.length,
					textContent: 'no samples'})));
		},
		mark(frames) {
			hits = frames;
			for (const row of body.rows)
				row.classList.toggle('hit', Boolean(hits && row.item && hits[row.item.frame]));
		},
	};
}

/* Callees under their callers. */
function treeFromRoot(tree) {
	const itemOf = node => ({
		node, frame: tree.frame[node], text: textOf(tree, node), total: tree.total[node],
		self: tree.self[node], leaf: childrenOf(tree, node).length === 0,
	});
	return {
		roots: () => childrenOf(tree, 0).map(itemOf),
		children: item => childrenOf(tree, item.node).map(itemOf),
	};
}

/* Callers under their callees: an item is all the nodes of a text at one place, each with the
 * samples of the innermost function that it is shown for. */
function treeFromLeaves(tree) {
	function group(parts) {
		const groups = new Map();
		for (const [node, samples] of parts) {
			const key = tree.key[node], found = groups.get(key);
			if (found) {
				found.parts.push([node, samples]);
				found.total += samples;
			} else {
				groups.set(key, {frame: tree.frame[node], text: textOf(tree, node), total: samples,
					self: 0, parts: [[node, samples]]});
			}
		}
		for (const item of groups.values())
			item.leaf = item.parts.every(([node]) => tree.parent[node] === 0);
		return [...groups.values()].sort((a, b) => b.total - a.total);
	}
	return {
		roots() {
			const parts = [];
			for (let i = 1; i < tree.count; i++)
				if (tree.self[i] > 0)
					parts.push([i, tree.self[i]]);
			const items = group(parts);
			items.forEach(item => { item.self = item.total; });
			return items;
		},
		children: item => group(item.parts.map(([node, samples]) => [tree.parent[node], samples])
			.filter(([node]) => node !== 0)),
	};
}

/* ---- functions ------------------------------------------------------------------------------- */

function makeFunctions(panel, choose) {
	const columns = [
		{title: 'Self', width: 'number', by: row => row.self},
		{title: 'Samples', width: 'number', by: row => row.self},
		{title: 'Total', width: 'number', by: row => row.total},
		{title: 'Samples', width: 'number', by: row => row.total},
		{title: 'Kind', width: 'kind', text: true, by: row => row.kind},
		{title: 'Function', width: 'function', text: true, by: row => row.text},
		{title: 'File or library', width: 'file', text: true, by: row => row.place},
	];
	const {table, body, heads} = makeTable('grid', columns, 'Functions');
	panel.append(element('div', {className: 'scroll'}, table));
	let rows = [], whole = 0, profile = null, query = '', sorted = 0, down = true, limit = TABLE.rows;

	heads.forEach((head, i) => {
		head.replaceChildren(element('button', {type: 'button', textContent: columns[i].title,
			onclick() {
				down = sorted === i ? !down : !columns[i].text;
				sorted = i;
				fill();
			}}));
	});

	function fill() {
		const {by} = columns[sorted], pattern = query ? searchPattern(query) : null;
		const found = rows.filter(row => !pattern || pattern.test(row.text) || pattern.test(row.place));
		found.sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) * (down ? -1 : 1) ||
			b.self - a.self || b.total - a.total);
		heads.forEach((head, i) => head.setAttribute('aria-sort', i !== sorted ? 'none' :
			down ? 'descending' : 'ascending'));
		body.replaceChildren(...found.slice(0, limit).map(rowOf));
		if (body.firstChild)
			body.firstChild.tabIndex = 0;
		if (found.length > limit)
			body.append(element('tr', {}, element('td', {colSpan: columns.length, className: 'text'},
				element('button', {type: 'button',
					textContent: `${grouped(found.length - limit)} more functions`, onclick() {
						limit *= 4;
						fill();
					}}))));
		if (!found.length)
			body.append(element('tr', {}, element('td', {className: 'empty', colSpan: columns.length,
				textContent: rows.length ? 'nothing matches' : 'no samples'})));
	}

	function rowOf(row) {
		const name = element('td', {className: 'text', title: row.text});
		name.append(...nameCell(profile, row.frame, withoutAbiTag(row.text)));
		const made = element('tr', {tabIndex: -1, className: 'openable'}, shareCell(row.self, whole, true),
			countCell(row.self), shareCell(row.total, whole, true), countCell(row.total),
			element('td', {className: 'text', textContent: row.kind}), name,
			element('td', {className: 'text file', textContent: row.place, title: row.place}));
		made.row = row;
		return made;
	}

	body.addEventListener('click', event => {
		const {row} = event.target.closest('tr');
		if (row)
			choose(row.text);
	});
	body.addEventListener('keydown', event => {
		const tr = event.target.closest('tr');
		if (event.key === 'Enter' && tr.row && event.target === tr)
			choose(tr.row.text);
		else if (event.key === 'ArrowDown' && tr.nextSibling)
			tr.nextSibling.focus();
		else if (event.key === 'ArrowUp' && tr.previousSibling)
			tr.previousSibling.focus();
		else
			return;
		event.preventDefault();
	});

	return {
		show(tree) {
			profile = tree.profile;
			whole = tree.total[0];
			limit = TABLE.rows;
			const {functionOf, functionTexts} = profile;
			const sums = tally(tree, functionTexts.length, node => functionOf[tree.frame[node]]);
			const frameOf = new Int32Array(functionTexts.length).fill(-1);
			for (let i = 1; i < tree.count; i++)
				frameOf[functionOf[tree.frame[i]]] = tree.frame[i];
			rows = [];
			functionTexts.forEach((text, i) => {
				if (sums.total[i] > 0)
					rows.push({text, frame: frameOf[i], self: sums.self[i], total: sums.total[i],
						kind: profile.kinds[profile.kindOf[i]].title,
						place: placeOf(profile, frameOf[i]).slice(1).join(' \u00b7 ')});
			});
			fill();
		},
		filter(text) {
			query = text;
			if (profile)
				fill();
		},
	};
}
