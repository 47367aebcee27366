/* SPDX-License-Identifier: MIT
 * The time strip: samples over time, by the kind of what ran, and a range to be chosen: drag, or
 * move its two ends with the arrow keys; a double click or Escape takes all. */
'use strict';

function makeStrip(element, choose) {
	const SVG = 'http://www.w3.org/2000/svg';
	const HEIGHT = 52, COARSE = 200;
	const svg = document.createElementNS(SVG, 'svg');
	svg.setAttribute('preserveAspectRatio', 'none');
	const layer = svg.appendChild(document.createElementNS(SVG, 'g'));
	const outside = [shape('outside'), shape('outside')];
	const edges = [shape('edge'), shape('edge')];
	const times = document.createElement('div');
	times.className = 'times';
	const labels = [0, 1, 2].map(() => times.appendChild(document.createElement('span')));
	element.append(svg, times);
	let bins = 1, binNs = 0, range = [0, 1], anchor = null;

	function shape(name) {
		const rect = svg.appendChild(document.createElementNS(SVG, 'rect'));
		rect.setAttribute('class', name);
		rect.setAttribute('height', HEIGHT);
		return rect;
	}

	edges.forEach((edge, i) => {
		edge.setAttribute('tabindex', '0');
		edge.setAttribute('role', 'slider');
		edge.setAttribute('aria-label', i ? 'end of the range' : 'start of the range');
		edge.addEventListener('keydown', event => {
			const step = {ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -bins,
				End: bins}[event.key];
			if (!step)
				return;
			const next = range.slice();
			next[i] = Math.max(i ? range[0] + 1 : 0, Math.min(i ? bins : range[1] - 1, range[i] + step));
			set(next, true);
			event.preventDefault();
		});
	});

	const binAt = event => {
		const box = svg.getBoundingClientRect();
		return Math.max(0, Math.min(bins, (event.clientX - box.left) / box.width * bins));
	};

	svg.addEventListener('pointerdown', event => {
		const edge = edges.indexOf(event.target);
		anchor = edge < 0 ? binAt(event) : range[1 - edge];
		svg.setPointerCapture(event.pointerId);
		event.preventDefault();
	});
	svg.addEventListener('pointermove', event => {
		if (anchor === null)
			return;
		const at = binAt(event), ends = [Math.min(at, anchor), Math.max(at, anchor)];
		if (ends[1] - ends[0] >= Math.min(0.5, bins / 400))
			set([Math.floor(ends[0]), Math.max(Math.ceil(ends[1]), Math.floor(ends[0]) + 1)], false);
	});
	svg.addEventListener('pointerup', () => {
		if (anchor !== null)
			choose(...range);
		anchor = null;
	});
	svg.addEventListener('pointercancel', () => { anchor = null; });
	svg.addEventListener('dblclick', () => set([0, bins], true));
	element.addEventListener('keydown', event => {
		if (event.key === 'Escape') {
			set([0, bins], true);
			event.stopPropagation();
		}
	});

	function set(next, done) {
		range = next;
		place();
		if (done)
			choose(...range);
	}

	function place() {
		const width = svg.clientWidth || 1, x = range.map(bin => bin / bins * width);
		svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
		layer.setAttribute('transform', `scale(${width / bins},1)`);
		outside[0].setAttribute('width', x[0]);
		outside[1].setAttribute('x', x[1]);
		outside[1].setAttribute('width', Math.max(0, width - x[1]));
		edges.forEach((edge, i) => {
			edge.setAttribute('x', Math.max(0, Math.min(width - 4, x[i] - 2)));
			edge.setAttribute('width', 4);
			edge.setAttribute('aria-valuemin', 0);
			edge.setAttribute('aria-valuemax', bins);
			edge.setAttribute('aria-valuenow', range[i]);
			edge.setAttribute('aria-valuetext', seconds(range[i] * binNs));
		});
		const all = range[0] === 0 && range[1] === bins;
		labels[0].textContent = '0 s';
		const steps = bins < COARSE ? `, in steps of ${seconds(binNs)}` : '';
		labels[1].textContent = all ? `drag to choose a range of time${steps}` :
			`${seconds(range[0] * binNs)} to ${seconds(range[1] * binNs)}`;
		labels[2].textContent = seconds(bins * binNs);
	}

	/* One outline for each kind, stacked. */
	function draw(kinds, counts) {
		const heights = new Float64Array(bins);
		counts.forEach(list => list.forEach((count, bin) => { heights[bin] += count; }));
		const scale = (HEIGHT - 4) / Math.max(1, heights.reduce((a, b) => Math.max(a, b), 0));
		const under = new Float64Array(bins);
		layer.replaceChildren();
		counts.forEach((list, kind) => {
			let path = '';
			for (let bin = 0; bin < bins; bin++) {
				if (!list[bin])
					continue;
				const y = HEIGHT - under[bin] * scale;
				under[bin] += list[bin];
				path += `M${bin} ${y.toFixed(1)}h1V${(HEIGHT - under[bin] * scale).toFixed(1)}h-1z`;
			}
			if (!path)
				return;
			const made = layer.appendChild(document.createElementNS(SVG, 'path'));
			made.setAttribute('d', path);
			made.style.fill = `var(--${kinds[kind].id}-1)`;
		});
	}

	return {
		place,
		range: () => range,
		clear() { set([0, bins], false); },
		show(profile, choice) {
			const same = bins === profile.bins;
			bins = profile.bins;
			binNs = profile.time.bin_ns;
			if (!same)
				range = [0, bins];
			draw(profile.kinds, countsOverTime(profile, choice));
			place();
		},
	};
}
