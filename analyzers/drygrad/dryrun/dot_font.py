"""Letters of dots, five wide and seven high, for pictures that no browser draws: ASCII as far as it can be seen."""

from __future__ import annotations

WIDTH = 5
_TABLE = r"""
    A ehhvhhh B uhhuhhu C ehggghe D uhhhhhu E vgguggv F vgguggg G ehgnhhf H hhhvhhh
    I e44444e J 72222ic K hikokih L ggggggv M hrllhhh N hhpljhh O ehhhhhe P uhhuggg
    Q ehhhlid R uhhukih S fgge11u T v444444 U hhhhhhe V hhhhha4 W hhhllla X hha4ahh
    Y hhha444 Z v1248gv a 00e1fhf b ggmphhu c 00egghe d 11djhhf e 00ehvge f 698s888
    g 00fhhhf1e h ggmphhh i 40c444e j 2062222ic k ggikoki l c44444e m 00qllhh n 00mphhh
    o 00ehhhe p 00uhhhugg q 00fhhhf11 r 00mpggg s 00ege1u t 88s8896 u 00hhhjd v 00hhha4
    w 00hhlla x 00ha4ah y 00hhhhf1e z 00v248v 0 ehjlphe 1 4c4444e 2 eh1248v 3 v2421he
    4 26aiv22 5 vgu11he 6 68guhhe 7 v124888 8 ehhehhe 9 ehhf12c . 00000cc , 00000cc48
    : 0cc0cc0 ; 0cc00cc48 ( 2488842 ) 8422248 [ e88888e ] e22222e _ 0000000v - 000v000
    + 044v440 = 00v0v00 / 01248g0 \ 0g84210 < 248g842 > 8421248 * 04lel40 ' 4480000
    " aaa0000 ` 8420000 ! 4444404 ? eh12404 # aavavaa % op248j3 & cik8lid @ eh1dlle
    $ 4fke5u4 ^ 4ah0000 { 2448442 } 8442448 | 4444444 ~ 008l200
"""
"""Characters, each before its rows from above, a digit to the base of 32 for five dots; two may lie below the line."""
_ROWS = {" ": "0", **dict(zip(_TABLE.split()[::2], _TABLE.split()[1::2], strict=True))}


def dots(character: str) -> list[tuple[int, int]]:
    """Return the column and the row of each dot of a character; a question mark stands for those unknown."""
    rows = _ROWS.get(character, _ROWS["?"])
    return [(x, y) for y, row in enumerate(rows) for x in range(WIDTH) if int(row, 32) >> (WIDTH - 1 - x) & 1]
