"""What the answer model is told to write an answer again, in which claims were found that nothing supports."""

from __future__ import annotations

from collections.abc import Sequence

from kb.answers import Claim
from kb.components import Message
from kb.prompts import SENTINEL, Language, Prompt

_ASKED: dict[Language, str] = {
    "en": """These statements of your answer were not found in the contexts that they cite:
{claims}

Write the whole answer again under the same rules. Correct each of these statements by the contexts, cite the context \
that really says it, or leave it out. Write nothing about this correction. If nothing is left, reply with exactly \
this one line: {sentinel}""",
    "zh": """你的回答中，下列论断在其所引的资料里没有找到依据：
{claims}

请按同样的规则重写整个回答：根据资料改正这些论断，引用真正说明它的资料，或者把它删去。不要提及这次修改。\
如果什么都不剩，只输出下面这一行：{sentinel}""",
    "ja": """あなたの回答のうち、次の記述は引用した資料の中に根拠が見つかりませんでした：
{claims}

同じ規則に従って、回答全体を書き直してください。これらの記述は資料に合わせて直すか、\
本当にそう述べている資料を引用するか、削除すること。この訂正については何も書かないこと。\
何も残らないときは、次の一行だけを出力すること：{sentinel}""",
}


def revision_messages(prompt: Prompt, text: str, unsupported: Sequence[Claim]) -> tuple[Message, ...]:
    """The conversation that asks for `text` once more.

    Args:
        prompt: What the answer was written from.
        text: The answer, with its markers.
        unsupported: Its claims that the contexts don't support.
    """
    listed = "\n".join(f"- {' '.join(claim.text.split())}" for claim in unsupported)
    asked = _ASKED[prompt.language].format(claims=listed, sentinel=SENTINEL)
    return (*prompt.messages, Message("assistant", text), Message("user", asked))
