"""PREMIS, and what other systems say in its stead: documents in, values out, and back.

model               events, agents and objects as somebody else recorded them
elements            names, texts and extensions of the XML
reader              any document: PREMIS 1 to 3 alone or inside METS, one entity per file or all in one
binding             which objects an event is about, where it does not say so itself
dnx, xip, foxml     events in the words of Rosetta, Preservica and Fedora
kept                an event as JSON, as a history keeps it, and back
json_xml            JSON as XML, for details
writer              PREMIS 3
"""
