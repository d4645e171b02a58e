"""A tiny test set in two languages, made here."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

DOCUMENTS = [
    {"_id": "leave", "title": "Parental leave", "text": "Parents may stay at home for 26 weeks; 18 are paid in full."},
    {
        "_id": "pump",
        "title": "Pump manual",
        "text": "Error PPR-9087 means that the intake is blocked. Clean the screen.",
    },
    {"_id": "flood", "title": "", "text": "The flood of 1998 reached 7.42 metres at the old bridge."},
    {"_id": "7", "title": "年假制度", "text": "员工每年享有十五天带薪年假，入职不满一年的按月折算。"},
    {"_id": "报销", "title": "报销流程", "text": "差旅费用须在回程后三十天内提交报销单，并附上发票。"},
    {"_id": "水位", "title": "", "text": "汛期水位由水文站每小时测量一次，数据上传到中心。"},
]
QUERIES = {
    "q1": "how many weeks may parents stay at home",
    "q2": "PPR-9087",
    "q3": "how high was the flood of 1998 at the bridge",
    "q4": "员工每年有多少天年假",
    "q5": "报销单什么时候提交",
    "q6": "nobody judged this one",
}
JUDGEMENTS = {
    ("q1", "leave"): 2,
    ("q1", "7"): 1,
    ("q2", "pump"): 1,
    ("q3", "flood"): 1,
    ("q4", "7"): 1,
    ("q4", "leave"): 0,
    ("q5", "报销"): 1,
}


def write_set(
    folder: Path,
    *,
    documents: list[dict[str, str]] = DOCUMENTS,
    queries: Mapping[str, str] = QUERIES,
    judgements: Mapping[tuple[str, str], int] = JUDGEMENTS,
) -> Path:
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps(row, ensure_ascii=False) for row in documents]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = [json.dumps({"_id": id, "text": text}, ensure_ascii=False) for id, text in queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"{query}\t{document}\t{grade}" for (query, document), grade in judgements.items()]
    text = "\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n"
    (folder / "qrels" / "test.tsv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def small_set(tmp_path: Path) -> Path:
    return write_set(tmp_path / "sets" / "small")
