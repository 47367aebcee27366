/* SPDX-License-Identifier: MIT */
/*
 * A profile as JSON, described by precord.schema.json: {"schema":"precord/1",...,"frames":[...],
 * "nodes":[{"parent":0,"frame":3,"self":12,"total":40},...]}. Node 0 is the root; a parent comes
 * before its children. Written record by record: a long recording has millions of nodes.
 */
#include "base/cleanup.h"
#include "output/internal.h"

static json_t *make_counts(const struct profile_counts *counts)
{
	const struct {
		const char *name;
		uint64_t value;
	} fields[] = {
		{"samples", counts->samples},
		{"ticks", counts->ticks},
		{"late", counts->late},
		{"torn", counts->torn},
		{"salvaged", counts->salvaged},
		{"guessed", counts->guessed},
		{"gone", counts->gone},
		{"uninterruptible", counts->uninterruptible},
		{"contradictions", counts->contradictions},
		{"truncated", counts->truncated},
		{"dropped", counts->dropped},
		{"native_samples", counts->native_samples},
		{"threads", counts->threads},
		{"stopped_ns", counts->stopped_ns},
		{"elapsed_ns", counts->elapsed_ns},
	};
	json_t *object = json_object();
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		json_object_set_new(object, fields[i].name,
				    json_integer((json_int_t)fields[i].value));
	return object;
}

static json_t *make_pacing(const struct profile_counts *counts)
{
	const struct profile_pacing pacing = profile_pacing(counts);
	return json_pack("{s:f, s:f, s:f}", "achieved_rate", pacing.rate, "late_share",
			 pacing.late_share, "stopped_share", pacing.stopped_share);
}

static json_t *make_envelope(const struct profile *profile)
{
	struct strbuf _cleanup_strbuf_ time;
	strbuf_init(&time);
	output_put_time(&time, profile->start_time);
	/* Not finite is no JSON: json_real would give NULL. */
	double rate = profile->rate > 0 && profile->rate < 1e9 ? profile->rate : 0;
	return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:b, s:f, s:s, s:o, s:o}", "schema",
			 "precord/1", "version", VERSION, "pid", (int)profile->pid, "command_line",
			 output_json_text(profile->command_line), "python_version",
			 output_json_text(profile->python_version), "mode",
			 output_json_text(profile->mode), "native", profile->native, "rate", rate,
			 "start_time", time.text, "counts", make_counts(&profile->counts), "pacing",
			 make_pacing(&profile->counts));
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
		if (!output_json_add(out, make_node(profile, i, totals[i]), error))
			return false;
	}
	return true;
}

bool output_profile_json(const struct profile *profile, struct strbuf *out, struct error *error)
{
	if (!output_json_add(out, make_envelope(profile), error))
		return false;
	out->text[--out->size] = '\0'; /* the envelope's brace: the lists go inside */
	strbuf_add_text(out, ",\"frames\":[");
	for (size_t i = 0; i < profile->frame_count; i++) {
		strbuf_add_text(out, i ? ",\n" : "\n");
		if (!output_json_add(out, output_json_frame(&profile->frames[i]), error))
			return false;
	}
	strbuf_add_text(out, "],\"nodes\":[");
	uint64_t _cleanup_free_ *totals = profile_totals(profile);
	if (!add_nodes(out, profile, totals, error))
		return false;
	strbuf_add_text(out, "]}\n");
	return true;
}
