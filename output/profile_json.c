/* SPDX-License-Identifier: MIT */
/*
 * A profile as JSON, described by precord.schema.json: {"schema":"precord/1",...,"frames":[...],
 * "nodes":[{"parent":0,"frame":3,"self":12,"total":40},...]}. Node 0 is the root; a parent comes
 * before its children. Written record by record: a long recording has millions of nodes.
 */
#include "base/cleanup.h"
#include "output/internal.h"

static json_t *make_pacing(const struct profile_counts *counts, double rate)
{
	const struct profile_pacing pacing = profile_pacing(counts, rate);
	return json_pack("{s:f, s:f, s:f}", "achieved_rate", pacing.rate, "late_share",
			 pacing.late_share, "stopped_share", pacing.stopped_share);
}

static json_t *make_envelope(const struct profile *profile)
{
	struct strbuf _cleanup_strbuf_ time;
	strbuf_init(&time);
	view_put_time(&time, profile->start_time_ns / 1000000000u);
	/* Not finite is no JSON: json_real would give NULL. */
	double rate = profile->rate > 0 && profile->rate < 1e9 ? profile->rate : 0;
	return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:b, s:f, s:s, s:o, s:o}", "schema",
			 "precord/1", "version", VERSION, "pid", (int)profile->pid, "command_line",
			 view_json_text(profile->command_line), "python_version",
			 view_json_text(profile->python_version), "mode",
			 view_json_text(profile->mode), "native", profile->native, "rate", rate,
			 "start_time", time.text, "counts", view_json_counts(&profile->counts),
			 "pacing", make_pacing(&profile->counts, rate));
}

static json_t *make_node(const struct profile *profile, size_t id, uint64_t total)
{
	const struct profile_node *node = &profile->nodes[id];
	bool root = id == PROFILE_ROOT;
	return json_pack("{s:o, s:o, s:I, s:I}", "parent",
			 root ? json_null() : json_integer(node->parent), "frame",
			 root ? json_null() : json_integer(node->frame), "self",
			 (json_int_t)node->self, "total", (json_int_t)total);
}

static bool add_nodes(struct strbuf *out, const struct profile *profile, const uint64_t *totals,
		      struct error *error)
{
	for (size_t i = 0; i < profile->node_count; i++) {
		strbuf_add_text(out, i ? ",\n" : "\n");
		if (!view_json_add(out, make_node(profile, i, totals[i]), error))
			return false;
	}
	return true;
}

bool output_profile_json(const struct profile *profile, const struct view_options *options,
			 struct strbuf *out, struct error *error)
{
	(void)options;
	if (!view_json_add(out, make_envelope(profile), error))
		return false;
	out->text[--out->size] = '\0'; /* the envelope's brace: the lists go inside */
	strbuf_add_text(out, ",\"frames\":[");
	for (size_t i = 0; i < profile->frame_count; i++) {
		strbuf_add_text(out, i ? ",\n" : "\n");
		if (!view_json_add(out, view_json_frame(&profile->frames[i]), error))
			return false;
	}
	strbuf_add_text(out, "],\"nodes\":[");
	uint64_t _cleanup_free_ *totals = profile_totals(profile);
	if (!add_nodes(out, profile, totals, error))
		return false;
	strbuf_add_text(out, "]}\n");
	return true;
}
