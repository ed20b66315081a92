"""The types IQ1, IQ2 and IQ3: an index chooses several values together, from a grid.

A grid is a list of points of 4 or 8 small numbers; an index of 8 to 11 bits names a point, and
further bits its signs. With IQ1 all numbers of a point are moved by an eighth up or down, so codes
here are eight times as large.

The grids are a part of the format, as ggml and the package ``gguf`` publish them (MIT licence,
copyright 2023-2026 The ggml authors). They were found by a search, so no rule makes them, and they
stand here as data: each number is its place among the grid's values, two of them in a byte.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_Bytes = NDArray[np.uint8]
_Found = tuple[NDArray[np.int8], Any]

_GRIDS: Final[Mapping[str, tuple[int, int, tuple[int, ...]]]] = {
    "IQ2_XXS": (256, 8, (8, 25, 43)),
    "IQ2_XS": (512, 8, (8, 25, 43)),
    "IQ2_S": (1024, 8, (8, 25, 43)),
    "IQ3_XXS": (256, 4, (4, 12, 20, 28, 36, 44, 52, 62)),
    "IQ3_S": (512, 4, (1, 3, 5, 7, 9, 11, 13, 15)),
    "IQ1": (2048, 8, (-1, 0, 1)),
}


@cache
def _grids() -> Mapping[str, NDArray[np.int8]]:
    data = np.frombuffer(zlib.decompress(base64.b85decode(_DATA)), np.uint8)
    places = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)
    found, at = {}, 0
    for name, (points, size, values) in _GRIDS.items():
        count = points * size
        found[name] = np.array(values, np.int8)[places[at : at + count]].reshape(points, size)
        at += count
    return found


@cache
def _signs() -> NDArray[np.int8]:
    """Return 8 signs for each index of 7 bits: the last one makes the number of minuses even."""
    bits = np.arange(128)[:, np.newaxis] >> np.arange(7) & 1
    whole = np.concatenate([bits, bits.sum(axis=1, keepdims=True) & 1], axis=1)
    return (1 - 2 * whole).astype(np.int8)


def _signs_of_bits(data: _Bytes) -> NDArray[np.int8]:
    bits = np.unpackbits(np.ascontiguousarray(data), axis=-1, bitorder="little")
    return 1 - 2 * bits.astype(np.int8)


def _scale(blocks: _Bytes) -> NDArray[np.float32]:
    return np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)


def _words(blocks: _Bytes, at: int, count: int, kind: str) -> NDArray[Any]:
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(blocks[:, at : at + count * size]).view(kind)


def _halves(data: _Bytes) -> _Bytes:
    return np.stack([data & 15, data >> 4], axis=-1).reshape(data.shape[0], -1)


def _quarter(blocks: _Bytes, numbers: NDArray[Any]) -> Any:
    return _scale(blocks) * (0.5 + numbers.astype(np.float32)) * np.float32(0.25)


# Each returns codes of blocks of 256 weights, and the scales of their groups.


def iq2_xxs(blocks: _Bytes) -> _Found:
    words = _words(blocks, 2, 16, "<u4").reshape(-1, 8, 2)
    points = np.ascontiguousarray(words[..., :1]).view(np.uint8)
    signs = words[..., 1:] >> np.arange(0, 28, 7, dtype=np.uint32) & 127
    codes = _grids()["IQ2_XXS"][points] * _signs()[signs]
    return codes, _quarter(blocks, words[..., 1] >> 28)


def iq2_xs(blocks: _Bytes) -> _Found:
    words = _words(blocks, 2, 32, "<u2")
    codes = _grids()["IQ2_XS"][words & 511] * _signs()[words >> 9]
    return codes, _quarter(blocks, _halves(blocks[:, 66:74]))


def iq2_s(blocks: _Bytes) -> _Found:
    high = blocks[:, 66:74, np.newaxis] >> np.arange(0, 8, 2, dtype=np.uint8) & 3
    points = blocks[:, 2:34].astype(np.uint16) | high.reshape(-1, 32).astype(np.uint16) << 8
    codes = _grids()["IQ2_S"][points].reshape(-1, 256) * _signs_of_bits(blocks[:, 34:66])
    return codes, _quarter(blocks, _halves(blocks[:, 74:82]))


def iq3_xxs(blocks: _Bytes) -> _Found:
    words = _words(blocks, 66, 8, "<u4")
    signs = words[..., np.newaxis] >> np.arange(0, 28, 7, dtype=np.uint32) & 127
    points = _grids()["IQ3_XXS"][blocks[:, 2:66]].reshape(-1, 8, 4, 8)
    return points * _signs()[signs], 2 * _quarter(blocks, words >> 28)


def iq3_s(blocks: _Bytes) -> _Found:
    high = np.unpackbits(np.ascontiguousarray(blocks[:, 66:74]), axis=-1, bitorder="little")
    points = blocks[:, 2:66].astype(np.uint16) | high.astype(np.uint16) << 8
    codes = _grids()["IQ3_S"][points].reshape(-1, 256) * _signs_of_bits(blocks[:, 74:106])
    scales = 1 + 2 * _halves(blocks[:, 106:110]).astype(np.float32)
    return codes, _scale(blocks) * scales


def iq1_s(blocks: _Bytes) -> _Found:
    words = _words(blocks, 34, 8, "<u2")
    high = words[..., np.newaxis] >> np.arange(0, 12, 3, dtype=np.uint16) & 7
    points = blocks[:, 2:34].reshape(-1, 8, 4).astype(np.uint16) | high << 8
    moved = np.where(words & 0x8000, -1, 1).astype(np.int8)
    codes = 8 * _grids()["IQ1"][points] + moved[..., np.newaxis, np.newaxis]
    return codes, _scale(blocks) * (2 * (words >> 12 & 7).astype(np.float32) + 1) / 8


def iq1_m(blocks: _Bytes) -> _Found:
    high = _halves(blocks[:, 32:48])
    points = blocks[:, :32].astype(np.uint16) | (high & 7).astype(np.uint16) << 8
    moved = np.where(high & 8, -1, 1).astype(np.int8)
    codes = 8 * _grids()["IQ1"][points] + moved[..., np.newaxis]
    words = _words(blocks, 48, 4, "<u2")
    # The float16 of the block lies in the highest four bits of its words.
    bits = (words >> 12 << np.array([0, 4, 8, 12], np.uint16)).sum(axis=1, dtype=np.uint16)
    scale = bits[:, np.newaxis].view("<f2").astype(np.float32)
    of_groups = words[..., np.newaxis] >> np.arange(0, 12, 3, dtype=np.uint16) & 7
    return codes, scale * (2 * of_groups.reshape(-1, 16).astype(np.float32) + 1) / 8


_DATA: Final = (
    "c-pmlNn0Gb(sfD&W-F<{Y$X9^TTJ$r$@Z4PZg26}Ta4{~|NeId72u)oy_?VV$VFvkWlEul6X%4K(=<&HEu&Smjuy"
    "f+rQk0jT1D$<A>nxP$rUXWd@lZBMC*LV1p;0PjTg$}VyT9yHeXaPTsY#wJd-b8JVg8zeUpe*d9#A!701!0hWG9cM"
    "6}9|#Eet&)QUS58vdTjedkg|>+U3f!B-0S9~}+}f1^#g;xaf^@fp9KQp5E-&g&XQ@{mG^V_-!;4LCLA=7ClYHhRF"
    "FgRUW@7(-4`2H;&WsF2ZG!rv9gLJqNHd|v`z{1HZtJ5?DhRJ>0uU_@c+Eri@<z-TkmL=nS`7*fP=Vv8Z-vYItoIL"
    "Mj_y+%t3x5E3BV@T*l$q`12v;-$2HMG>#S<b-ZDdW`=e?55$@H6~XJfLKAdGc^o41wKG8I6PGgw~{6VH!NK_0i-u"
    "7=ji`F>9iOX1v}{cpj5pbHlY;inZYw9H7|=ICHc(taI-Wm_l4kX2z*7aD#*3XA!MW8ODYcvYiD6#&2s*1&)&%uGi"
    "HO%`ip@*O4RPSEXX6rV`~;nT{25LEj5HS2()KVNx+KnnW6w1K}*vT5ujsDhEdI$xG)ec0l-WWf$PPIF42du2*q>!"
    "*9C`L65^+(BciQ+2An^cWandIc>x&CYUv34hxrxtub_Ana;uC0(6^>4&qpqA*cTk|3%*SfCG78!4e0GLvk8n2<!e"
    "C7dTOv7sRGQYii9m3J>8ljWAk<5W{EcXhB}=4q;9)xe6VaAIBX!Q!V!)bKl`8hfruJa7S1yLqUVdV?g~84wau>8h"
    "w#V|AtL@;1j$I{Ydnx->_<lQ+Z$&0vP?Uu@EJ=l#Lda*k!kq0f(#MUdFIVBYD8EKGkWsmW-T#!LzzFIzYL1gO#vt"
    "OhSNrv^pjNXj0J%-Jw5VUh&z&zG#!v%)-GmurS&L95#o?VQE4ExdO!{PEP(APZ3t~UkaXZ{sBn5pLlpM!rfmEh<k"
    "8^VrPi5q;ZuONQN9;2r*!cg|j5XiZ0ICeC#*`td@Sp-8dYHAXXmXZz;y#)*mo9+r5Rw!R{%?3wDtQ2kagI&9!t!;"
    "&d(ps|nW?5Z-^r>=qxKm6#pju&reop$B+KFLL0j*)xvkjL#JpgHzXn@CO7`X7AW_gNoMc1I`zRr0_o4GQZ(|w2KS"
    "802(rU8hIf9As0lufq*V}YMmcEHTOZqJb{5|;?l?$NMQo9Ww1rxN}e73bGV0tkRSPP8H{O6dU6VIUSY;)4o-MDPC"
    "}68Kj#`ka4Zhq5Co+-x21;MlP2e!XqdatJ!#|~SYHmtn=b=CI5ZUac?5qP0Km@m9_5VeBu$2)+p<Uo=vEHh08x3%"
    "igz>;hFU-xx<LcRXDY!Rk;_`8hbouBiugg7qd(4RygD-(GYrCAU;~~~Iz|qM6X+l^l;1eJOqQu<p=?J+ga?)~bzG"
    ";*0hf6%8*K>NglB;jyiS2dLob1g&Wa>i0W%6XP5^Fp4`v9@+VTLkDA(3&vg`hoL*p-bv{i#2Co&`BF@ifsDrN`k@"
    "e)~oDoARtxOY>qO#FZbqu{M8@RvE4o?XZyssR*HO4w*L27WC-rP1jy@BqvLs7(YjY`H}=m=hpUTj>>)2N4{Qic1&"
    "xM$_g_<Rwycq6J=oCvld$b2bAQ2Eq3OtP#c-cZYjoc6jANlj0gxfsO&<oT`@yQ*D?&3=WsTPX%QB_y05h!%<+kf9"
    "C<bS$4|#uUz22@c`23HuymP11E^hL@@xqQ~%E#p+DjYg@o%DzK{oJ08nXW{#Wim3f%s{A^I;oV!+iD4ORD?qKFOJ"
    "=$LotDSX#|)<jFL(I4@Rq73Fq%4qcw|B!YXJOs%DZ-N?ek~DZpG`ui^rU5UQv<JSz*HUxkG5H|X7~4IJ$Qc;v;xg"
    "@bKC|R91+6{eH2o2;AysaV^jaP~Ck)C==VEvx0)OK?2wC(^bQ$wu2Sk{nj}~zW4TvaSv?QqD-O_-MLyivH+W*dx%"
    "75TV#paaLN1IAuxa3Xck;X)~*c~$W-?&tN#HYY!!k|t8IE93Ra~^T5qRi&NirI;YN{BxkRESCia3%Svi={_gtPL)"
    "PM5G%eQx@smV49*E5}o1f|H{?KzFK(D#Ptz(E06daG9~)REa%QI`5XyUriQK_5YQKb;eqEB&9?a-d&?J-3kRK?cA"
    "0L`Z>L%sB3T}Wky7sgCCe*|jKrQJFl8)oiF>f={eedod71en?^++^9~Cj~i6hBICJ91d%h+k~%{VwGBO%C22CyLJ"
    "V;}=339;idQpFO~O8%XjE_rD&1Pb)BVe2QJ8Xf+W8v;Zo8<s)(FWfcSZ6aTs+UO~gL(rr!6Dc%@88s9|k2x+9Em<"
    "h;i7tZ94x0KC?*&32I?aDMQ>2Kbg=ui%C{~B#E*;>W2I;^;Lwx}2EcD27N_rSat-41tkQdfJs<||gS&^DRfwDO@Q"
    "8LIY?aaU*0YBIQY+~monv)KIcnKXix>Wvmj@=*e?DAi@b}{TK$;3bKZbBF^f^Y>^@b5glIGmNBqQmu`mlubT5?6F"
    "Mh+qY~x{_HOyq)eE?2dH7-#C1>3uwkBPm^jv!Be1Q7;M(xcz%Dx^~)o^AN^C!#*+IN(|#pWItH);eKv^jOD5Q8YL"
    "7k}Sd!`dy;dm71l9~uh>#VfAwFmbjvz}V7?5})CTq}effH}KOx)2lTNx_|&790bde9$J6@|XnA#G@pC^V`<h!EZR"
    "DcQMscfNutt_VS@52PR}lZ&QWzn~%NHLFW4L()*1!BU#$5rO!VwkeP5Yta<wC#_R_RS}P9`ar560H$Flr*VlGrsv"
    "?ad#{a()0@aj96E`}7@Sh>HB&a+3&=S^gymo;y(c$WtU&Oj$s?)-!-aa+ipkGXa}|e;vT?M#3z37}Rgo9%QnGlk3"
    "*757PRWuyMGsx9B)Gdm)Zm}r6D!ppr=si+0d-HZqF7fIqY1&fj>Ib@JJ)1MBN7(mXzeF5)<T!wgLb*sd}ZjqXnI_"
    "jX@V)Oh+8(LRD$EE_@dJ;$y_u=Aq`RTqcgJ{6P%(=_K@ycvxAGpBta_@;zO;J>?{~wRL}|z+k282>_+!w5we#`Q("
    "(+tK!7XBGHA$<_$|bqh-8Nzjfg@f;D6JiZRpYbiyn=px}>#A+LP&|l6Ptk`m_yw8cmf{(+$zVI+?m?!bVA70UVs-"
    "MP^$!q2+{9paqwIgr*E|M#xgv7Q^^Y`j&7@IGqfAatKC#FdT^(2SdX>L5>bXG2-CR5or!~<$Lnns|g5Qfm7Y$1DU"
    "32f`=u<=WTgOCcz-kX(HRXSVO}@;enE#N|H+r-G+{iW>l>{s$)l^rY;s7P4qsIAL;F80#9cTrmiAH1UI4yyj|poK"
    "qq1k`aq{pJ$&eLb}~4%HL{wJ9<(}Vx-^q2LfKLb)TWS<C@4V8!~&ocm)wCXC(5``)DjHMk{`XbuFpf$6KLbm^}$k"
    "4^>`A7-o40_87-z-A`vtub$)!H8>AB=c?4^z0HjG6t@A}u(pa3#t^sfY_zMifn%}qTqkQ1WsZ0GIrxkQ)K5eS1yf"
    ">Xr-=-gM_nGUXVJ9rYemDtl!fhatTLF{872;kzh%e%0d>4PjFk73YS()w3ZfEnA7c1v0?^eF8{8$OAYpeUKSF1-)"
    "K0Qfm>uXQf&eq<qg)~zhY-uYk(tbKjuhT^$LT8~|C^MKG1}}?pSEhNK*ZJQ3)%?pmtgo(Ltk;e0jaM6AH&&na&Er"
    "j0h;p5)dh@LA)l<aptgWhS*V>|eY=5`gMvLdZ**WYN{kXsFVJmH|Z{2Qv-#Xg9-k$C3?wss=-wC_3-KV=Rcf%qr%"
    "Azf{78i@pi@U|N7x(Jk-ro7%tG%#4+fVyD`&avS`}yGDU~%~R@a}LrdUDi{-X5(#fByXA^Me;RFIJ8>kB^RD9A6*"
    "5JN|xBPhXrKpWd8)IbAz@dA4$XdH(5q=jGYU+n1}a)9dnj@w!}`T-;tvmrpLAUB10szuLdLyNcJ>*XhmHo832eZ{"
    "pj%w-<kHzdL=meRF>E>gLl;d;k9Z=7&!o79XE~JpZ)%`Ren*m)YO#@7e9@?b>a+-M_uMefIVEYq@)QcXc;?+xT|y"
    "?dDtie)4_#5r1s|So}lj8mHB1ZDJBH)B5yuV%Y6W2h%Zp;pOytx}2`3o9V;!b^1R2AH^rYZzV7pZvf`D!fx0LN8v"
    "oY51+#wg<@QdYoLMi_%yb-6BqF?p2nB)HN53I-o|fnHp{b(S)KLS-t1uZe0Dy&m|e~Oo_(GDm`yA5mCcp5vc0mua"
    "=dc3a=CK55?5DN>uO(pwtBF7vI>K(ep&st`s7J|GJmr7<m$=SC(~M7TUo1XeeK!W!P>>z8w?2enpWUxInC2X+Dr_"
    "WJ$T#m^d|k4-lsb<-8{=rkki+5%Zq%FPx3{+%D4F+7^9SpvWZ-?UG~dyIV*3=4g4|8SLSQ;G@sAge0RQ>AI?waAL"
    "h678GN&>udnZ|AFQ9Qzk;8>Sq~d&W4_Tg790B;mmBrz_S4;`=TBcf4V$ygv{^RW=F#TK=7-H&cyXw+x?0zO;iazE"
    "r$}&Hb+<0+em$vY^<}-NSM~3DTffyGm>?ito3~A%%}(2EhwZdo0<Tv3T5o-;FW}=R{kp&FU;FnyZN;tCt-RH@wzu"
    "}S4z^CWF1EgGh3&QNy1li%zkRfQvVFJxV|!&M@ARD)JI6cMJGVR2v-oW7S$p>O+52a!yLtE7?qc_B_hL6L@?yT&S"
    "Zpr(VsCM<I9i-8&KIv2my3^!uZyrZ+gsgR-)nnYd&he>dv|;P>`nV+zwYnvAMRi5hl6yme$WoK4t5U~2PX$-2d@v"
    "_9(+5P9p=NQhy8Hx@apj9@Y7*9N=M~r=V<@v{OGTvZ%0p`pF9sQW-scC{^IDxbi8t0j_dLE@$T{d@yYSU@$GRuSv"
    "$!m^OJtEI5|2wJGnf0dlF7(r|ER#w4ELx_THU-IK4exIm>7BvwGIg_RfyZrt^5deg5M7`26en>dUp4?d6A;^H+zj"
    "ZeFF=8;HrX*O#y3MY>qO=oiNq=NGRpt}eb@e7^{nv&+@Xa@j8TFYhj=t9-R}wYYkIb&ZH!yH3};*XP%l*PpMyU57"
    "U-Z|a-<H?Q85x6j^QzP)~X`d56n@~*$jH}ji~o4uQZo12^IeSN?C{?q&N;qb%hhqoU-e7OBEeO&+8J|2JE`E>T_!"
    ">8%<?DOI0o6oCXj=$u;=YLPPD~R!W+i#!W9^byX{csz<=C9jd&%VC=8tzu^(%sX$cDJ~@yo=xVza4$M{uaKkexHA"
    "@-!H!RAE!U!KYRZ$oc~<^&41YcL3Kl>O~y;snjh76$5JCR=yFL>i{Z>L6uwy-C@6SILIW!sTHmDtr+TCkqADRfCr"
    "c)aWvPYiu#9>xnF_N#vo*7EepJUD%WP8~HQceJrsT^K0ZRZaTWB{+eC<D}%k^Kdh3w_BX)Kp%0fUK~a+$K25}4AJ"
    "a+DI15|BFvmXeNgtC2-?k9fHhL>WZMLaEY8a-xk$Dbbf}z-UXEP|#Yoktq?lT>-3j;*w7oHCVtEm<W!M8G&siG^E"
    "a{pf!FDBvIU`0!GOS1STt@Wwg4i#}+OG;XJfVYTa-yT6<KVU9L6%vLvIrEU71HWg(p$_1Ea-71$KVnw?@Suc#(Vd"
    "dF=Gq;D;VuEC}_#tO-xUzzU(-=Q_uWI?MyuQ2D0Op9!18p|c>9behYBtO+^GpQ2mwP>N>bFovBg=a28d5HwKwWG%"
    "Fg{eLkB!XR&E*FLi(G@uTa_Bs!W0+ZDwiOMJ!{HEAoaOC<e;UTu!C90-mtw*nSVC<S!3dI3$_%4q8AgdRusqqagD"
    "6u~QB81Zn(P<>mAWs+k{nBMdDLfFB5SP7AmE@@1500>su$|8a3@Rk&B2<{Z+z}i(ONW9uGz8_G|E1>1-=_K+fi-_"
    "EU&Pv!U2pjNnm-TQH>+Ox$Ii00--2cb-<IAb9)b%bzoVdHxC}E8hyaA&Jr1;hcj%0j50uA381m!4g*o@gFpt#`#u"
    "adBzq{scteik&#X;7h%u^W85K$u{ljszMzsv(HRLyJgX^O8Q4{6_Kv|&QI3LX`dIl}9%#gb$Xh>`B=1_0>g3!b?V"
    "d5Z>OEka@NsPYYd$gWBxrkL(2{2dS;hb!(%;Gp&EnI-axoCy;XEZ1u^a<xc4mZ}LbvK|6B`5bZpiwF|Rv!VTVB3N"
    "6uP<xRXpnxm4bDO13MwWFW5wUy;2ULePz}m4I38j*3`vFlL$)P5BeaLMAr;oDEu{q7(2D3YjzN{faJU4HHHu_>hK"
    "ea@jcw|(RMJidytBTI)>t(K@JGrWG_H8#N9Z%YLqlBSy7-I+Ds*2DU+&Y$;bHq>b_!4}JhLJSxCNYQ!%2R$uda@I"
    "c=onH6|}QqM4~NE3S~wELy;k-x;R3C)i=5wU5T!tpyZTu??>VLsFN3)g2Rfzw-uTNdA1YU;~IL_=E8{d5YcCRF8E"
    "v@YU*62Mm~$9EUg+l)n8^Y7FI3XU&7)TE9;}Cju?*IlE;f9cF|{8KeM2N&(#2ectt<)cjpEMqc<auqi(cl!e_La3"
    "^a&0$~yGXokfgA?INg7$lR)cID(qau{VPfa#=(ki^yZ#-Kp9<42S*}+@T1xAjolDd{+!$hy`sjL@X%5_mSk|qx~^"
    "Nhe;OnrUDA=%rXnWFQH{`xswsA%N!yH@u8%F@iqY^kO}>18a0$G>9`CIpBI24cfoErj+U#51@aechwnO$brX%KOs"
    "aA~9P(d1<12GNCV;r0A%~%VCMA#e@gR4Jq;PVpR`$EtMKE>ZY6mO7tbmeUu#%VtJs>RroJ_2QFuiK+pp3PH;55gy"
    "##F}CL=;UU<uJ`K#V~y^Wf1NO>x6A3iZs>_ilGws#Ai5NH9RSiB*P6WKXS&rTuX4+r>qTK3L~Lpj&fZ&ZMK_W3~-"
    "?`wy(mpFcWth3;l&kEa1Yyxjm>SC#y8p3Cc)ZbbRC{^bO~XM8?v3t0sC3io9GiKx<>|Ad10}Wn?A2G}aD^kdTOy6"
    "%CxpkbGmlkdG2~vQGJ7Edeot{=gg2+DM$qTU9YfI942xto|V%rCOa>aWeXba~e0Dc&`)kPpW9WXEAG*ciZH3h^!1"
    "ygr*^S@bqAk*r=Z2`{f>~%)rMnG~^-Nst62_e_$&obM9R2G+e{qXrbGPg<FKQ@y_cRo$t}>7>%V)01EOChJ$m84U"
    "W8n%iwr5LEr=ww1$TKBf`KEAs8xb-bA=r3e3uAO=z2h4D|RWEB8S#V)i5=J~0+VE6aV{Q;e2f-b1(X4kCiwB#=X1"
    "(ppI!#0190xbQvS=?J)b(H+3z0fxv$@JSpmI9BW^xw8Z)>6C|LqC}$Xq0FI#p=6OWQG!gC6<pmB=}BWvrI_-QzLT"
    "nxZj)Y<Ds$6t9u$}qmvmN&qK>r{QqW*psl|yh)>xRSC)2?^C?IK{2v!<vF2(dr0w$PZ$;q?n5~&es5GjucSu$-QM"
    "IjX-^&rg<Q5!pxNdcJhC5D*BdpC(ITBKFFRE7^ub4*c8M@%>BL2^oADq-qiN?<DB)<=n}Xc*?QEMe9GX!sK`Ok=I"
    "5jP;&2)_k(EfFMK&md4soarkp)H6zP)pzQEuIOY*{BAd}+#IRwgFf14fbZfdX-BkdP?Rs=G?e!aOM3<2Yj&_ASrd"
    "`Tt@)Rn$CQpNyVzVhla+A#?lh72Chbz=f?zW=3x(o8K;Gbwz{8v<q#rJ4^h*FYff)u|5CczK!JzD2?)!@Y+A-7|k"
    "7O^DR1T<c#a7!Xu8^k+xUmUp}K5N0trK&jA$cmIDqE(wRia?Q_sA82C$3YB;;8?h-uQj!b)}l#$7INX3q8^zvSx|"
    ">;GLo_f#20urx`}g!5Fqe!pskp+WG_8o9&ro}xF@kdBXsTt>^26l4>Yu}`i^mUU5~1}X_I%AvB<p13X!#CxGMCp*"
    "htxiWRLi2T*@gROvTSC<f5&N=mU<ENHrV1Hj9)tgi2Hup-BM;sW4AS5hHJ6Wz5bgd6J4y(Zz+3P0UjE<Q4Uz>D7n"
    "uVbbBG0y|-Xrk$IdU@o3e6fq%jvVoyEjN|;Q&A56TK~B(Fya3CD@i2F|a<pUAv9&Q|J4w;%XV=|H4(T)%t)m64I+"
    "-xik-+_NKOE!gP`6_xmyuXDl7pqBvJ6Wtm|a>|r4xy@<g!R<#T$PL9k6p}A=f#BDkqfp(Q=$JTLiUOI?GY{#7eNt"
    "q@<*EDCG*}8u*WrFeH^oEuA@7!cewI92QFgt)~W4@G`co$P=dF=)p9T6j5ue(UeO{u?LIGA~xzmP&DmP#_dCNCQ}"
    "c2JZH6YT^3e|PWvJR*{PVRSL8c6jh2xz%See#hZuu{tU4V@%x0$qDZn)L6&J&wic-Olq+l$D3W?w3(1hJ^jPF`)#"
    "C3-#&UQb#82TU=QUGHRrFIL1HfaiwUT~Sn2Ww<9vEMA#fzyYuPQHB^x8h~w4Lnro75Fc519s)6Tdz%{W3U0<yfqp"
    "&z%jJWcaWsUHS1W#eq%O}(0eJ|+W-{s9j$5eqKMtXEyt585lzBAN#Qgp3Kr>t7-3Tf$eKbn0n0+Grih$mF))#$<x"
    "1|5)<$6jBIXL8yMYUQ26NO^O{k%Zp(nASj=3?YRYjVKUDg%3vl^eh#0cAaz{@rGI-Z4^T!y8R(thwf*4~3MqRN^q"
    "V+tVe_lLV&D8QUt&b!|;P5@<LgTxY@W)*>@ES9BMeqtF(#mblsw8f<x?I}+#o4^7F;8s<x&;+prk;giHwB%Q%kRU"
    "x-cGt00O$C)?$;zj{?)Ruy%S80s1=2Y7tW%m%9<@<~Nn`Cko2IKMlQcUf$88j7NbRC2R%K<QNJ#=ZO<R;GNGpO<x"
    "spb4imiPlkm7X3bfjVrQ%!NIs7MPCv`#Sik(@H9nuIA0PB_6(!4R)KDWsKvn!`)QqEfuio>yk!sM9683&L^iz3<w"
    "%;sSBBsib0qluT8zDY+ZyH{Q#mefr+2uY@;s3-ju2`bvOB&&V~21_lxnVn`McMQpx_EywIci7dihD?&6{0)Y#g^W"
    "g~>tfQ*eUDaVG)X7Wobu7c9zg-2fBnIH(b{x+S@RhyfzFcPKk~8<DaLJ>UvHzis1Wol@ylkLkU0uFs2_6x}8B&=X"
    "Lr^K4<!>eQpw$MIn;R?Slgq*~1S?>{<z56nzK<@r=douZWQ(TkQYXuoExN=gA;npYF59t8r($1nd95`)V4^aY1Q*"
    "LzEJ0Ct6_<uo(2p+pXfg;~jk|fO$|M4@)}vN(l2#m4Vh|bO#8J*qmf2Db$&y%rS1ofXXSwT0#TOEnWa+3vOtQSw#"
    "3Lu+US3?tmQ0jKT4)HCHX=L4l7tmF5uc{YiVK;^^j-i<x;~k1OJyWeWC3qAwG|5qrkl!8MTo0MO%-kQ<S?EMNv2c"
    "+Y*HlTur`?niD=PT`zW3!ZBQ4L;Fha~d<I(;RhF{TvlJ`SY;+1$0%(JzRi-_7dy>cVNf#HWlGB9*Frgier`4rmSX"
    "6Z`7@njyqag;@u3}ora3B<+#}tPX`d_soR_wM~$cc70%(Glc&!`5w4P8W)sOTw{^5^sgn_XnG*i0&>Wo2A-R|rnz"
    "<gKDlfh}<y{~<YfrHobjXd%z!hXHFbiKLXl&*C$XQU&OwnQ(Ia^*J3@`X?_f3M^QGBdHBu&f_v2m*uoL6}=S3r7!"
    "L#(qdKgvXeIDaP^MQ<pwYLuxigIy&;KNNzrnMo(0NYe&Fst6~@W7Si0wvz|kf3&e7gKC&Y5Mc8LGHr-&upAf=*mt"
    "4Q}$f8J}9y`5RF>XIUNnyWG!Tt?I4T9SfG0z{UZf}RvhVnDUn$RzSbD|RYFsGym(n!pFhB+n_gDV<dfNS2!-9c>W"
    "*UR>x;-U2By!U>C(BAuQ_`W{TJVLSY-3bH7!NK5C&>}=ssOdrAMajfXEHa<;_Ynj;4WBBA1dal=G>LQ^3^%*Oscc"
    "$m$6e|asoZ6HSm;o5YlT(LYObLYf<dqKewMo1H`c%Ei4tc48QtX72-CPTm(eCuyo-RGtrRsr9CdL%&*y~kwNqJrL"
    "NB#SMg8X~b"
)
