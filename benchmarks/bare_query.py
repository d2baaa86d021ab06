"""What a start cannot do without: import the libraries, load the model, open the collection, search once.

Plain code, one step after the other, with the files and the library calls that the project itself
uses; nothing is checked, and no answer is written. `benchmarks/start_up.py` measures the command
against it. Prints the id of the nearest chunk.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import chromadb
import chromadb.config
import numpy as np

from kb.embedding._e5_model import E5Model
from kb.embedding._e5_tokenizer import PIECE_BYTES, E5Tokenizer, PieceTable
from kb.embedding._e5_weights import E5Weights
from kb.embedding._manifest import find_weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path, help="the model, in e5's cache folder")
    parser.add_argument("pieces", type=Path, help="the tokenizer's pieces, in the same folder")
    parser.add_argument("ids", type=Path, help="their token ids")
    parser.add_argument("languages", type=Path, help="what is subtracted from the model's vectors")
    parser.add_argument("chroma", type=Path, help="Chroma's folder")
    parser.add_argument("collection", help="the name of its collection")
    parser.add_argument("question")
    arguments = parser.parse_args()

    weights = E5Weights(find_weights())
    pieces = np.frombuffer(arguments.pieces.read_bytes(), f"S{PIECE_BYTES}")
    tokenizer = E5Tokenizer(weights, PieceTable(pieces, np.frombuffer(arguments.ids.read_bytes(), np.int32)))
    model = E5Model(weights, arguments.graph.read_bytes())  # the onnxruntime session
    languages = np.load(arguments.languages)
    mean, directions = languages[0], languages[1:]

    vector = model.mean_state(tokenizer.ids(f"query: {arguments.question}")) - mean
    vector -= (directions @ vector) @ directions
    vector /= np.linalg.norm(vector)

    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(str(arguments.chroma), settings=settings)
    collection = client.get_collection(arguments.collection, embedding_function=None)
    found = collection.query(query_embeddings=vector[np.newaxis], n_results=1, include=["distances"])
    print(found["ids"][0][0])


if __name__ == "__main__":
    main()
