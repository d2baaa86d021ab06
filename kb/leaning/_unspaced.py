"""Questions in Chinese and Japanese that lean on what was asked before."""

from __future__ import annotations

import re
from collections.abc import Callable

from kb.leaning._leaning import Leaning

# ── Chinese ──

_ZH_OPENERS = re.compile(
    "(?:好的?|嗯|哦|谢谢你?|明白了?|那么?(?!个|些|种|样|边|里|儿|时)|所以|另外|还有|而且|但是?|不过|然后|以及"
    "|或者|如果是|要是|换成|对于|关于)[，,、。！! ]*"
)
_ZH_ASKS = re.compile(
    "什么|怎|如何|多少|几|哪|谁|吗|为何|为啥|多久|多长|多大|多高|何时|是否|是不是|能不能|能否|可不可以|有没有"
    "|要不要|还是"
)
_ZH_ADDS = re.compile(
    "(?P<x>.{1,20}?)(?:的话|的情况|的时候)?(?:呢|(?:的话)?又?(?:怎么样|如何|怎样)|也(?:是|一样|可以|行|适用|算"
    "|要|需要|有)?(?:这样|一样)?(?:吗|么))[？?。!！ ]*$"
)
_ZH_REFERS = re.compile(
    "[它她]们?|(?<![其吉])他(?!人)们?|(?<!的)(?<![A-Za-z0-9])(?<![A-Za-z0-9] )(?:这|那)(?:个|些|种|样|里|边|项"
    "|笔|张|份|条|类|几|两|时候?|期间|之前|之后|以后|么(?!$))"
    "|(?<![极尤与任如何])其(?!他|它|中|实|余|次|间)|此(?!外|次|处|刻)|上述|前者|后者|同样|刚才|上面|前面"
    "|到时(?=候|会|怎|要)|否则|不然"
    "|^该|[，,]该(?!怎|如何|不该)"
)
_ZH_NOW = re.compile("这(?:个?(?:月|周|星期|季度|学期)|几天|次|里有|边有)|(?:这|那)么(?=多|大|长|久|高|低|少|快|慢)")
_ZH_ENDS = re.compile("[，,。；;！!？?：:]")
_ZH_LITTLE = re.compile(
    "(?:几|多少|[0-9一二两三四五六七八九十]+)个?(?:天|次|小时|分钟|工作日|日|号|个?月|年|周|元|人|点|个)|如果"
    "|要是|假如|万一|请问|什么时候|什么|怎么样|怎么办|怎么|怎样|如何|多少|多久|多长|多大|几|哪里|哪儿|哪些|哪个"
    "|哪|谁|为什么|为何|为啥|何时|是否|是不是|能不能|能否"
    "|可不可以|可以|有没有|要不要|需要|时间|钱|天|个|次|小时|分钟|工作日|人|例外|限制|上限|下限|条件|申请|批准"
    "|审批|同意|办理|费用"
    "|收费|价格|截止|期限|有效期?|原因|理由|区别|提供|提交|材料|手续|流程|步骤|具体|详细|情况|包括|算|最|晚|早"
    "|多|少|大|小|快|提前|之前|之后|以前|以后|以内|之内"
    "|还|也|都|就|才|能|会|要|得|该|应该|必须|一定|可能|我们?|你们?|您|咱们?|在|从|到|向|给|跟|和|与|由|把|被"
    "|对|为|的|地|了|着|过|吗|呢|吧|啊|呀"
    "|有|是|没|不|无|去|来|做|办|找|说|看|问|用|付|交|改|取消|延长|拒绝|超过|超|丢|失败|例子|解释|一下|再|另外"
    "|别的|其他|其它|方式|方法|办法|选择|规定|要求|继续|更|些|点"
)
_ZH_TO_US = re.compile("你好|您好|你是谁|你会|你能|谢谢|再见")
_LEAST_SAID = 2
"""Characters beside those that every subject could be asked with."""
_NAMED_BEFORE = 4
"""So much before what refers, in one clause, is what it refers to: 特斯拉是如何资助他的工作的？"""
_ENOUGH_SAID = 12
"""A question that says so much names what it refers to: 能不能设置成只有我们公司的 IP 地址才可以用这个密钥？"""


def chinese(text: str) -> Leaning | None:
    """Tell how a question leans; see `kb.leaning`."""
    opening = _ZH_OPENERS.match(text)
    rest = text[opening.end() :] if opening else text
    if not re.search(r"\w", rest):
        return Leaning() if opening and text.endswith(("?", "呢")) else None
    adding = _ZH_ADDS.fullmatch(rest)
    if adding and not _ZH_ASKS.search(adding["x"]) and not _ZH_REFERS.search(adding["x"]):
        fragment = adding["x"].strip("，,、 ")
        if "呢" in rest[len(adding["x"]) :] or opening or "也" in rest[adding.end("x") :]:
            return Leaning(fragment)
    if _refers(rest, _ZH_REFERS, _ZH_NOW, _ZH_ENDS, _zh_said):
        return Leaning()
    little = len(_zh_said(rest)) < _LEAST_SAID and not _ZH_TO_US.search(text)
    return Leaning() if little and _ZH_ASKS.search(rest + ("吗" if "？" in text or "?" in text else "")) else None


def _zh_said(text: str) -> str:
    return re.sub(r"[\W_]", "", _ZH_LITTLE.sub("", text))


def _refers(
    text: str, refers: re.Pattern[str], now: re.Pattern[str], ends: re.Pattern[str], said: Callable[[str], str]
) -> bool:
    """Whether a word refers to what no clause before it has named."""
    if len(said(text)) >= _ENOUGH_SAID:
        return False
    looked_at = now.sub(lambda found: "·" * len(found.group()), text)
    for found in refers.finditer(looked_at):
        if len(said(text[: found.start()])) >= _NAMED_BEFORE:
            continue
        before = [end.start() for end in ends.finditer(text[: found.start()])]
        if len(said(text[: before[-1]] if before else "")) < _LEAST_SAID:
            return True
    return False


# ── Japanese ──

_JA_OPENERS = re.compile(
    "(?:はい|なるほど|ありがとう(?:ございます)?|わかりました|了解です|じゃあ?|では(?=[、,])|それでは"
    "|それじゃあ?|それなら|それから|あと|また(?=[、,])|そして|ちなみに"
    "|なら(?=[、,])|もし|でも|ただ(?=[、,])|ところで)[、,。! ]*"
)
_JA_ADDS = re.compile(
    "(?P<x>.{1,20}?)(?P<how>(?:の(?:場合|とき|時|ほう|方)(?:に)?)?(?:では|には|からは|までは|は|なら"
    "|だったら|だと|も)|の(?:場合|とき|時)(?:に)?(?:は)?)"
    "(?:どう(?:です|でしょう|なります|なのです|なんです|なの|なん|なりますでしょう)?か?|いかがです?か?"
    "|同じ(?:です|でしょう)?か?|同様です?か?)?[?？。 ]*$"
)
_JA_SAME = re.compile("(?:同じ|同様)(?:です|でしょう)?か?[?？。 ]*$")
# "返金の期限は？" names what is asked for, and of what.
_JA_ASPECT = re.compile(
    "(?:の.*の|の\\w{0,6}(?:日数|期限|期間|料金|費用|金額|時間|方法|仕方|しかた|やり方|手順|条件|上限|下限"
    "|連絡先|対象|理由|意味|場所|担当(?:者)?|締め切り|締切|頻度|回数|人数|割合"
    "|手続き|使い方|違い|一覧|種類|内容|流れ|有効期限|期日|営業時間|住所|電話番号|長さ|重さ|数|値段|手当|原因"
    "|対処法?|書き方|送料|宛先|形式)$)"
)
_JA_VERB = re.compile(
    "(?:する|した|して|ない|なかった|れる|った|んだ|いた|えた|ている|ていた|られる|たい|す|く|ぐ|む|る|い|た)$"
)
_LONGEST_THING = 10
"""Characters that are not Latin; a longer phrase says itself what it is about: 松阪市松阪図書館の所在地は？"""
_JA_PARTICLE = re.compile("[をがに]")
_JA_REFERS = re.compile(
    "それ(?!ぞれ|では|じゃ|なら|から|とも)(?:ら|ぞれ)?|その(?!他|うち|まま|都度|場で|日中|ほか|もの)"
    "|(?<![どあ])そこ(?!そこ)|そちら|そういう|そんな|そうした|そのとき"
    "|これ(?!から|まで)(?:ら)?|(?<!ど)この(?!たび|世|文書|度|ほか|ところ|間|頃|先|会社|サイト|ページ|アプリ|システム|画面"
    "|製品)|こういう|このような"
    "|(?<![ただ])あれ(?!ば|る)|あの(?![う])|彼女?|前者|後者|上記|同じく|(?:ほか|他)に(?:は|も)?(?:何|どんな"
    "|あります|必要)|さっき|先ほど|(?<![をに])そうです?か|^どちらが"
)
_JA_NOW = re.compile("今(?:の|は)")
_JA_ENDS = re.compile("[、。！？!?,]|(?:たら|れば|なら|ので|から|けど|ですが|ますが|ましたが)(?=.)")
_JA_LITTLE = re.compile(
    "どうやって|いつまで(?:に)?|いつから|いつ|どのくらい|どれくらい|どれぐらい|どのぐらい|どこ|どちら|どう|なぜ"
    "|どうして|いくら|いくつ|だれ|どんな|どの|どれ|なに|もっと|くわしく"
    "|具体的|詳細|例外|申請|承認|許可|決裁|期限|料金|費用|金額|値段|時間|期間|人|条件|方法|手順|上限|下限|理由"
    "|原因|必要|可能|場合|最大|最長|最短|最低|何|誰|教え|説明"
    "|支払|払|日|月|年|週|分|円|以内|以上|前|後|早|遅|長|短|詳|違い|書類|手続|変更|取消|延長|拒否|超|例|他|待"
    "|届|使|出|要|続|同|含|除|決|連絡"
)
_JA_GRAMMAR = re.compile(
    "(?:です|でしょう|ます|ました|ません|ください|下さい|でき|かか|あり|ある|すれば|したら|する|して|した|いい"
    "|よい|よろしい|まで|から|より|ほど|だけ|とき|もの|こと|ほう|ため|など|なり"
    "|なる|なって|られ|れば|たら|もらえ|いただけ|しま|いけ|だめ|わか|かな|ちなみに|また|もう|まだ|すぐ|ずっと"
    "|さらに|ほかに|ほか|それ|これ|その|この|ちょっと|ぐらい|くらい|へは|には|では|とは|は|が|を|に|で|と|も|の"
    "|へ|か|ね|よ|し|て|た|だ|る|い|う|く|な|ら|れ|り|わ|え|き|け|せ|め|ん)+"
)
_JA_TO_US = re.compile("こんにちは|ありがとう|あなた|はじめまして|おはよう|こんばんは|お願い|すみません")


def japanese(text: str) -> Leaning | None:
    """Tell how a question leans; see `kb.leaning`."""
    opening = _JA_OPENERS.match(text)
    rest = text[opening.end() :] if opening else text
    if not re.search(r"\w", rest):
        return None
    adding = _JA_ADDS.fullmatch(rest)
    if adding and _is_thing(adding["x"]) and (_JA_SAME.search(rest) or adding["how"] != "も"):
        return Leaning(adding["x"].strip())
    if _refers(rest, _JA_REFERS, _JA_NOW, _JA_ENDS, _ja_said):
        return Leaning()
    little = len(_ja_said(rest)) < _LEAST_SAID and not _JA_TO_US.search(text)
    return Leaning() if little else None


def _is_thing(fragment: str) -> bool:
    """Whether it names something else to ask the same of, and neither what is asked for nor a case."""
    return not (
        sum(not c.isascii() for c in fragment) > _LONGEST_THING
        or _JA_ASPECT.search(fragment)
        or _JA_PARTICLE.search(fragment)
        or _JA_REFERS.search(fragment)
        or _JA_ASKS.search(fragment)
        or (_JA_VERB.search(fragment))
    )


_JA_ASKS = re.compile("何|誰|いつ|どこ|どの|どう|どれ|いくら|なぜ|だれ|どんな|どち")


def _ja_said(text: str) -> str:
    return re.sub(r"[\W_]", "", _JA_GRAMMAR.sub("", _JA_LITTLE.sub("", text)))
