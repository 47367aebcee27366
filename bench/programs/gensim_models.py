# SPDX-License-Identifier: MIT
"""gensim's models: Cython without the GIL in threads of Python's."""

REQUIRES = ["gensim"]
NATIVE = r"^blas_thread_server"


def setup():
    global random, Word2Vec, FastText, Doc2Vec, LdaModel, texts, tagged, dictionary, bags
    import random
    from gensim.models import Word2Vec, FastText, Doc2Vec, LdaModel
    from gensim.models.doc2vec import TaggedDocument
    from gensim.corpora import Dictionary
    random.seed(1)
    texts = [[f"w{int(random.paretovariate(0.7)) % 2000}" for _ in range(20)] for _ in range(3000)]
    tagged = [TaggedDocument(text, [i]) for i, text in enumerate(texts)]
    dictionary = Dictionary(texts)
    bags = [dictionary.doc2bow(text) for text in texts[:500]]


def work():
    Word2Vec(texts, vector_size=100, min_count=1, epochs=5, workers=2)
    Word2Vec(texts, vector_size=100, min_count=1, epochs=3, workers=2, sg=1, hs=1, negative=0)
    FastText(texts[:1000], vector_size=50, min_count=1, epochs=2, workers=2)
    Doc2Vec(tagged, vector_size=50, min_count=1, epochs=2, workers=2)
    LdaModel(bags, num_topics=10, passes=1)
