"""Which shop is nearest to each customer? shops.py [CUSTOMERS]"""
import json
import random
import sys

from geometry import nearest


def places(count, seed):
    chance = random.Random(seed)
    return [(chance.random(), chance.random()) for _ in range(count)]


def report(found):
    lines = [json.dumps({"customer": customer, "shop": shop}) for customer, shop in found]
    return sum(len(line) for line in lines)


def main():
    shops = places(2000, 1)
    customers = places(int(sys.argv[1]) if len(sys.argv) > 1 else 10000, 2)
    found = [(customer, nearest(shops, customer)) for customer in customers]
    print(report(found), "bytes")


main()
