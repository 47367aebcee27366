# SPDX-License-Identifier: MIT
"""spaCy: tokens, rules and a text classifier that is trained; Cython classes over thinc and BLIS."""
REQUIRES = ["spacy"]
PYTHON = "3.12.1"
NATIVE = r"^blas_thread_server"


def setup():
    global TEXTS, NLP, EXAMPLES, OPTIMIZER
    import random
    import spacy
    from spacy.training import Example
    rand = random.Random(1)
    words = [f"word{i}" for i in range(500)] + ["Berlin", "isn't", "U.S.", "(so)", "3.5km"]
    TEXTS = [" ".join(rand.choices(words, k=60)) + "." for _ in range(60)]
    NLP = spacy.blank("en")
    NLP.add_pipe("sentencizer")
    NLP.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": "Berlin"}])
    NLP.add_pipe("textcat").add_label("a")
    NLP.get_pipe("textcat").add_label("b")
    EXAMPLES = [Example.from_dict(NLP.make_doc(text), {"cats": {"a": i % 2, "b": 1 - i % 2}})
                for i, text in enumerate(TEXTS)]
    OPTIMIZER = NLP.initialize(lambda: EXAMPLES)


def work():
    list(NLP.pipe(TEXTS))
    NLP.update(EXAMPLES[:20], sgd=OPTIMIZER)
