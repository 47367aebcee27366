/* SPDX-License-Identifier: MIT
 * The page: what is chosen, the tabs, and who is drawn anew when something else is chosen. */
'use strict';

const byId = id => document.getElementById(id);
const TABS = ['flame', 'tree', 'callers', 'functions', 'source'];

const choice = {threads: null, from: 0, to: 1, hidden: new Set(), idle: true, lines: true};
let profile = null, tree = null, whole = null, tab = 'flame', query = '';
const stale = new Set();

/* ---- frames as all views show them ----------------------------------------------------------- */

function colourOf(of, frame) {
	const id = of.functionOf[frame];
	return `var(--${of.kinds[of.kindOf[id]].id}-${of.functions.shade[id]})`;
}

/* The kind, and the full file or library. */
function placeOf(of, frame) {
	const id = of.functionOf[frame], {file, module} = of.functions;
	const parts = [of.kinds[of.kindOf[id]].title];
	if (file[id] >= 0)
		parts.push(of.strings[file[id]]);
	if (module[id] >= 0)
		parts.push(of.strings[module[id]]);
	return parts;
}

/* ---- views ----------------------------------------------------------------------------------- */

const HOT = 0.05;	/* the tree is opened along its hottest path, as long as that has so much of all samples */
const columns = [{title: 'Total', width: 'number'}, {title: 'Samples', width: 'number'},
	{title: 'Self', width: 'number'}, {title: 'Function', width: 'function', text: true}];

const flame = makeFlame(byId('chart'), byId('about'), showNotes);
const fromRoot = makeTree(byId('tree'), 'Call tree', columns);
const fromLeaves = makeTree(byId('callers'), 'Functions and their callers', columns);
const functions = makeFunctions(byId('functions'), text => {
	byId('search').value = `^${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/\\\)$/, '')}`;
	search();
	open('flame');
});
const source = makeSource(byId('source'));
const strip = makeStrip(byId('strip'), (from, to) => {
	choice.from = from;
	choice.to = to;
	choose();
});

const views = {
	flame: () => flame.show(tree),
	tree: () => fromRoot.show(tree, treeFromRoot(tree), HOT),
	callers: () => fromLeaves.show(tree, treeFromLeaves(tree), 2),
	functions: () => functions.show(tree),
	source: () => source.show(whole),
};

/* A view is filled when it is looked at. */
function refresh() {
	if (!stale.delete(tab))
		return;
	views[tab]();
}

function choose() {
	const self = selfCounts(profile, choice);
	tree = shownTree(profile, self, choice);
	whole = wholeTree(profile, self);
	TABS.forEach(name => stale.add(name));
	showShares();
	search();
	refresh();
	byId('reset').hidden = !choice.threads && choice.from === 0 && choice.to === profile.bins &&
		!choice.hidden.size && choice.idle && choice.lines;
}

function showNotes(view) {
	byId('unzoom').hidden = tab !== 'flame' || view.zoomed === 0;
	const notes = profile.notes.slice();
	if (tab === 'flame' && view.left)
		notes.unshift(`${grouped(view.left)} boxes too narrow to be drawn: zoom in, or see the tree.`);
	byId('notes').textContent = notes.join(' ');
}

/* ---- tabs ------------------------------------------------------------------------------------ */

function open(name) {
	tab = name;
	for (const other of TABS) {
		const button = byId(`tab-${other}`);
		button.setAttribute('aria-selected', other === name);
		button.tabIndex = other === name ? 0 : -1;
		byId(other).hidden = other !== name;
	}
	byId('direction').hidden = name !== 'flame';
	byId('by-line').hidden = name === 'functions' || name === 'source';
	refresh();
	if (name === 'flame')
		flame.fit();
	showNotes(flame.view);
	save();
}

TABS.forEach((name, i) => {
	byId(`tab-${name}`).addEventListener('click', () => open(name));
	byId(`tab-${name}`).addEventListener('keydown', event => {
		const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
		if (!step)
			return;
		const next = TABS[(i + step + TABS.length) % TABS.length];
		open(next);
		byId(`tab-${next}`).focus();
		event.preventDefault();
	});
});

function nameDirection() {
	byId('direction').textContent = flame.view.icicle ? 'Root at the bottom' : 'Root at the top';
}

byId('direction').addEventListener('click', () => {
	flame.turn(!flame.view.icicle);
	nameDirection();
});
byId('unzoom').addEventListener('click', () => flame.zoom(0));

/* ---- search ---------------------------------------------------------------------------------- */

function search() {
	query = byId('search').value;
	const hits = matchingFrames(profile, query);
	if (stale.has('flame'))
		flame.view.hits = hits;
	else
		flame.mark(hits);
	fromRoot.mark(hits);
	fromLeaves.mark(hits);
	functions.filter(query);
	byId('matched').textContent = hits ?
		`matched ${percent(matchedSamples(tree, hits), tree.total[0])}` : '';
	save();
}

byId('search').addEventListener('input', search);

document.addEventListener('keydown', event => {
	const input = byId('search'), typing = document.activeElement === input;
	const find = (event.ctrlKey || event.metaKey) && event.key === 'f' || event.key === 'F3' ||
		event.key === '/' && document.activeElement.localName !== 'select';
	if (find && !typing) { /* pressed again, the browser's own search opens */
		input.focus();
		input.select();
	} else if (event.key === 'Escape' && typing && query) {
		input.value = '';
		search();
	} else if (event.key === 'Escape' && tab === 'flame') {
		flame.zoom(0);
		input.blur();
	} else {
		return;
	}
	event.preventDefault();
});

/* ---- filters --------------------------------------------------------------------------------- */

const threadName = thread => `${thread.tid}${thread.name ? ` "${thread.name}"` : ''}`;

function fillThreads() {
	const {threads, processes} = profile.time.who, select = byId('thread'), before = select.value;
	select.replaceChildren(element('option', {value: '', textContent: `all ${grouped(threads.length)}`}));
	processes.forEach((process, i) => {
		/* One that has executed another program can be there twice: the newest counts. */
		const own = [...new Map(threads.filter(thread => thread.process === i)
			.map(thread => [thread.tid, thread])).values()];
		const options = own.map(thread => element('option', {value: `t${thread.tid}`,
			textContent: threadName(thread)}));
		if (processes.length < 2) {
			select.append(...options);
			return;
		}
		const title = `process ${process.pid} ${process.command}`.slice(0, 100);
		select.append(element('optgroup', {label: title}, element('option', {value: `p${process.pid}`,
			textContent: `all of process ${process.pid}`}), ...options));
	});
	byId('thread-filter').hidden = threads.length < 2;
	select.value = before;
	if (select.selectedIndex < 0)
		select.value = '';
	choice.threads = threadsChosen(select.value);
}

function threadsChosen(value) {
	const {threads, processes} = profile.time.who;
	if (!value)
		return null;
	return new Set([...threads.keys()].filter(at => value === `t${threads[at].tid}` ||
		value === `p${processes[threads[at].process].pid}`));
}

byId('thread').addEventListener('change', () => {
	choice.threads = threadsChosen(byId('thread').value);
	strip.show(profile, choice);
	choose();
});

const SHORT = {'python-library': 'library'};

/* The legend: each kind's share of the samples by their leaf; without its tick, it is left out. */
function fillKinds() {
	const present = new Set();
	for (let i = 1; i < profile.count; i++)
		present.add(kindOfFrame(profile, profile.frame[i]));
	const boxes = profile.kinds.map((kind, i) => {
		if (!present.has(i) || kind.id === 'idle' || kind.id === 'thread' || kind.id === 'note')
			return null;
		const box = element('input', {type: 'checkbox', checked: !choice.hidden.has(i), onchange() {
			choice.hidden[box.checked ? 'delete' : 'add'](i);
			choose();
		}});
		const swatch = element('span', {className: 'swatch'});
		swatch.style.background = `var(--${kind.id}-1)`;
		const label = element('label', {title: `${kind.title}: the share of samples that ended in one`},
			box, swatch, `${SHORT[kind.id] || kind.title} `, element('span', {className: 'share'}));
		label.kind = i;
		return label;
	});
	const legend = byId('kinds').firstElementChild;
	byId('kinds').replaceChildren(legend, ...boxes.filter(box => box));
	byId('idle-filter').hidden = !profile.runs.idle.includes(1);
}

function showShares() {
	const self = profile.kinds.map(() => 0);
	for (let i = 1; i < profile.count; i++)
		self[kindOfFrame(profile, profile.frame[i])] += whole.self[i];
	for (const label of byId('kinds').querySelectorAll('label'))
		label.querySelector('.share').textContent = percent(self[label.kind], whole.total[0]);
}

byId('idle').addEventListener('change', () => {
	choice.idle = byId('idle').checked;
	strip.show(profile, choice);
	choose();
});
byId('lines').addEventListener('change', () => {
	choice.lines = byId('lines').checked;
	choose();
});
byId('reset').addEventListener('click', () => {
	Object.assign(choice, {threads: null, from: 0, to: profile.bins, idle: true, lines: true});
	choice.hidden.clear();
	byId('thread').value = '';
	byId('idle').checked = byId('lines').checked = true;
	fillKinds();
	strip.clear();
	strip.show(profile, choice);
	choose();
});

/* ---- colours --------------------------------------------------------------------------------- */

const SCHEMES = ['auto', 'light', 'dark'];

function paint(scheme) {
	document.documentElement.dataset.scheme = scheme;
	byId('scheme').textContent = {auto: '\u25d0 auto', light: '\u25cb light', dark: '\u25cf dark'}[scheme];
}

byId('scheme').addEventListener('click', () => {
	const {scheme} = document.documentElement.dataset;
	paint(SCHEMES[(SCHEMES.indexOf(scheme) + 1) % SCHEMES.length]);
	save();
});

/* ---- the address: #tab=functions&s=dgemm&scheme=dark ------------------------------------------ */

function save() {
	const state = new URLSearchParams();
	if (tab !== 'flame')
		state.set('tab', tab);
	if (query)
		state.set('s', query);
	if (document.documentElement.dataset.scheme !== 'auto')
		state.set('scheme', document.documentElement.dataset.scheme);
	try {
		history.replaceState(null, '', `#${state}`);
	} catch (error) {
		/* Some hosts do not let a page have an address; it works without. */
	}
}

/* ---- start ----------------------------------------------------------------------------------- */

function showHead() {
	document.title = profile.title;
	byId('title').textContent = byId('title').title = profile.title;
	byId('summary').textContent = byId('summary').title = profile.summary;
	byId('facts').replaceChildren(...profile.facts.flatMap(([name, value]) =>
		[element('dt', {textContent: name}), element('dd', {textContent: value})]));
}

/* The one way in for data: from the page itself, or newer from elsewhere. What is chosen stays. */
function show(data) {
	const first = profile === null, all = first || choice.from === 0 && choice.to === profile.bins;
	profile = loadProfile(data);
	if (all || choice.to > profile.bins)
		Object.assign(choice, {from: 0, to: profile.bins});
	showHead();
	fillThreads();
	fillKinds();
	byId('strip').hidden = profile.bins < 2;
	strip.show(profile, choice);
	choose();
}

window.addEventListener('resize', () => {
	strip.place();
	flame.fit();
});

{
	const data = JSON.parse(byId('data').textContent), state = new URLSearchParams(location.hash.slice(1));
	paint(SCHEMES.includes(state.get('scheme')) ? state.get('scheme') : 'auto');
	byId('search').value = state.get('s') || '';
	tab = TABS.includes(state.get('tab')) ? state.get('tab') : 'flame';
	TABS.forEach(name => { byId(name).hidden = name !== tab; });
	flame.view.icicle = data.icicle;
	nameDirection();
	show(data);
	open(tab);
	document.documentElement.classList.add('ready');
}
