"""The FastAPI origin of the framework matrix: says which ids FastAPI reads. Its server is uvicorn."""
import sys
from uuid import UUID

import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel

app = FastAPI()


class Item(BaseModel):
    id: int


class Document(BaseModel):
    id: UUID


def found(response, id):
    response.headers["X-Dispatched"] = "limited"
    return {"id": str(id)}


@app.get("/items/{id}")
def item(id: int, response: Response):
    return found(response, id)


@app.get("/documents/{id}")
def document(id: UUID, response: Response):
    return found(response, id)


@app.get("/items")
def item_of_query(id: int, response: Response):
    return found(response, id)


@app.post("/items")
def item_of_body(item: Item, response: Response):
    return found(response, item.id)


@app.post("/documents")
def document_of_body(document: Document, response: Response):
    return found(response, document.id)


host, port = sys.argv[1].rsplit(":", 1)
uvicorn.run(app, host=host, port=int(port), log_level="warning")
