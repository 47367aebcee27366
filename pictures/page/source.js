/* SPDX-License-Identifier: MIT
 * Source files with the heat of each line: self, and total, which counts a stack once however
 * often the line stands in it. Files that could not be read when the report was written show
 * their sampled lines alone. */
'use strict';

const LINES = {hot: 2000, shown: 20000};

function makeSource(panel) {
	const columns = [{title: 'Self', width: 'number'}, {title: 'Total', width: 'number'},
		{title: 'File', width: 'name', text: true}];
	const {table, body} = makeTable('listbox', columns, 'Source files');
	const list = element('div', {className: 'files scroll'}, table);
	const heading = element('h2', {});
	const lines = makeTable('table', [{title: 'Self', width: 'number'}, {title: 'Total', width: 'number'},
		{title: 'Line', width: 'line'}, {title: 'Source', width: 'text', text: true}], 'Lines');
	const scroll = element('div', {className: 'scroll'}, lines.table);
	panel.append(element('div', {className: 'split'}, list, element('div', {className: 'lines'},
		heading, scroll)));
	let files = [], profile = null, whole = 0, chosen = null;

	/* Of the lines, by file: [{file, self, total, lines: Map of line to {self, total}}]. */
	function collect(tree) {
		const {of, list: known} = profile.lines;
		const sums = tally(tree, known.length, node => of[tree.frame[node]]);
		const found = new Map();
		known.forEach(({file, line}, i) => {
			if (sums.total[i] <= 0)
				return;
			if (!found.has(file))
				found.set(file, {file, self: 0, total: 0, lines: new Map()});
			const at = found.get(file);
			at.self += sums.self[i];
			at.lines.set(line, {self: sums.self[i], total: sums.total[i]});
		});
		const ids = [...found.keys()], number = new Map(ids.map((file, i) => [file, i]));
		const byFile = tally(tree, ids.length, node => {
			const line = of[tree.frame[node]];
			return line < 0 ? -1 : number.get(known[line].file) ?? -1;
		});
		ids.forEach((file, i) => { found.get(file).total = byFile.total[i]; });
		return [...found.values()].sort((a, b) => b.self - a.self || b.total - a.total);
	}

	const nameOf = file => profile.strings[file];
	const textOfFile = file => profile.sources.find(source => source.file === file);

	function showFile(file) {
		chosen = file;
		for (const row of body.rows) {
			row.setAttribute('aria-selected', row.file === file);
			row.tabIndex = row.file === file ? 0 : -1;
		}
		const at = files.find(one => one.file === file), source = textOfFile(file);
		heading.replaceChildren(nameOf(file), ' ', element('small', {textContent: source ?
			source.changed ? 'changed since the recording began: lines may not fit' : '' :
			profile.source === 'none' ? 'without its text (--source=none)' :
			'its text could not be read when the report was written'}));
		const hot = [...at.lines.keys()].sort((a, b) => at.lines.get(b).total - at.lines.get(a).total);
		const hottest = at.lines.get(hot[0]).total;
		const texts = source ? source.text.split('\n', LINES.shown) : [];
		const numbers = new Set(hot.slice(0, LINES.hot));
		texts.forEach((_, i) => numbers.add(i + 1));
		lines.body.replaceChildren(...[...numbers].sort((a, b) => a - b).map(number => {
			const heat = at.lines.get(number);
			const row = element('tr', {}, shareCell(heat ? heat.self : 0, whole),
				shareCell(heat ? heat.total : 0, whole, Boolean(heat)),
				element('td', {className: 'line', textContent: number}),
				element('td', {className: 'text code', textContent: texts[number - 1] || ''}));
			if (heat) {
				row.className = 'hot';
				row.style.setProperty('--warm', (0.05 + 0.4 * Math.sqrt(heat.total / hottest)).toFixed(3));
				row.title = `line ${number}: ${grouped(heat.self)} self, ${grouped(heat.total)} in all`;
			}
			row.line = number;
			return row;
		}));
		const row = [...lines.body.rows].find(one => one.line === hot[0]);
		scroll.scrollTop = Math.max(0, row.offsetTop - scroll.clientHeight / 2);
	}

	body.addEventListener('click', event => {
		const row = event.target.closest('tr');
		if (row.file !== undefined) {
			row.focus();
			showFile(row.file);
		}
	});
	body.addEventListener('keydown', event => {
		const row = event.target.closest('tr');
		const next = event.key === 'ArrowDown' ? row.nextSibling :
			event.key === 'ArrowUp' ? row.previousSibling : event.key === 'Enter' ? row : null;
		if (!next || next.file === undefined)
			return;
		next.focus();
		showFile(next.file);
		event.preventDefault();
	});

	return {
		show(tree) {
			profile = tree.profile;
			whole = tree.total[0];
			files = collect(tree);
			body.replaceChildren(...files.map(at => {
				const name = nameOf(at.file);
				const row = element('tr', {tabIndex: -1, className: 'openable'}, shareCell(at.self, whole, true),
					shareCell(at.total, whole), element('td', {className: 'text', title: name,
						textContent: name.replace(/^.*\/(?=[^/]*\/[^/]*$)/, '')}));
				row.setAttribute('role', 'option');
				row.file = at.file;
				return row;
			}));
			if (files.length) {
				showFile((files.find(at => at.file === chosen) || files.find(at => textOfFile(at.file)) ||
					files[0]).file);
			} else {
				heading.textContent = '';
				body.append(element('tr', {}, element('td', {className: 'empty', colSpan: 3,
					textContent: 'no lines are known'})));
				lines.body.replaceChildren();
			}
		},
	};
}
